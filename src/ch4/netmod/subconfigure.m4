[#] start of __file__
dnl MPICH_SUBCFG_AFTER=src/mpid/ch4

AC_DEFUN([PAC_SUBCFG_PREREQ_]PAC_SUBCFG_AUTO_SUFFIX,[
    AM_COND_IF([BUILD_CH4],[
        AS_CASE([" $ch4_netmods "],[*" composite "*],[
            build_ch4_netmod_composite=yes
            AC_DEFINE(MPIDI_BUILD_CH4_LOCALITY_INFO, 1, [CH4 should build locality info])
            build_ch4_locality_info="yes"
        ])
    ])
    AM_CONDITIONAL([BUILD_CH4_NETMOD_COMPOSITE],[test "X$build_ch4_netmod_composite" = "Xyes"])
])dnl

AC_DEFUN([PAC_SUBCFG_BODY_]PAC_SUBCFG_AUTO_SUFFIX,[
AM_COND_IF([BUILD_CH4_NETMOD_COMPOSITE],[
    AC_MSG_NOTICE([RUNNING CONFIGURE FOR ch4:composite])
    AC_ARG_VAR([PM_CORE_LIB],[the core library of MPICH-Composite, libpm.la])
    AC_ARG_VAR([PM_CORE_INCLUDE],[the source folder of the core of MPICH-Composite])
    AS_IF([test -z "$PM_CORE_LIB" || test -z "$PM_CORE_INCLUDE"],
          [AC_MSG_ERROR([ch4:composite is built by the configure of MPICH-Composite, which sets PM_CORE_LIB and PM_CORE_INCLUDE])])
    pm_core_lib="$PM_CORE_LIB"
    pm_core_include="$PM_CORE_INCLUDE"
])
AC_SUBST([pm_core_lib])
AC_SUBST([pm_core_include])
])dnl

[#] end of __file__
