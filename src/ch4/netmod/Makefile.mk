if BUILD_CH4_NETMOD_COMPOSITE

AM_CPPFLAGS += -I@pm_core_include@

mpi_core_sources += src/mpid/ch4/netmod/composite/func_table.c \
                    src/mpid/ch4/netmod/composite/composite_active.c \
                    src/mpid/ch4/netmod/composite/composite_alone.c \
                    src/mpid/ch4/netmod/composite/composite_bitmap.c \
                    src/mpid/ch4/netmod/composite/composite_calls.c \
                    src/mpid/ch4/netmod/composite/composite_coll.c \
                    src/mpid/ch4/netmod/composite/composite_combine.c \
                    src/mpid/ch4/netmod/composite/composite_cvars.c \
                    src/mpid/ch4/netmod/composite/composite_direct.c \
                    src/mpid/ch4/netmod/composite/composite_fuzzy.c \
                    src/mpid/ch4/netmod/composite/composite_hooks.c \
                    src/mpid/ch4/netmod/composite/composite_init.c \
                    src/mpid/ch4/netmod/composite/composite_group.c \
                    src/mpid/ch4/netmod/composite/composite_matching.c \
                    src/mpid/ch4/netmod/composite/composite_mcast.c \
                    src/mpid/ch4/netmod/composite/composite_measure.c \
                    src/mpid/ch4/netmod/composite/composite_mended.c \
                    src/mpid/ch4/netmod/composite/composite_notify.c \
                    src/mpid/ch4/netmod/composite/composite_partitioned.c \
                    src/mpid/ch4/netmod/composite/composite_persistent.c \
                    src/mpid/ch4/netmod/composite/composite_profile.c \
                    src/mpid/ch4/netmod/composite/composite_pvars.c \
                    src/mpid/ch4/netmod/composite/composite_report.c \
                    src/mpid/ch4/netmod/composite/composite_spawn.c \
                    src/mpid/ch4/netmod/composite/composite_started.c \
                    src/mpid/ch4/netmod/composite/composite_team.c \
                    src/mpid/ch4/netmod/composite/composite_team_coll.c \
                    src/mpid/ch4/netmod/composite/composite_upcalls.c \
                    src/mpid/ch4/netmod/composite/composite_why.c \
                    src/mpid/ch4/netmod/composite/composite_win.c

include_HEADERS += src/include/mpix_composite.h

errnames_txt_files += src/mpid/ch4/netmod/composite/errnames.txt

# The C compiler links libmpi and would not think of the C++ library.
external_libs += -lstdc++
pmpi_convenience_libs += @pm_core_lib@

endif
