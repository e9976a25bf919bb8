# Read by make in MPICH's build directory: its static libraries, in static/.libs/, of the same objects as the shared ones. Nothing is compiled
# for them. The objects are position independent: a static library may become part of a shared one, too.
static:
include Makefile
static_libraries = $(lib_LTLIBRARIES:lib/%=static/%)
static: $(static_libraries)
# What a shared library of MPICH needs of another one stays there; what is in archives, as our core, goes in.
$(static_libraries): static/%.la: lib/%.la
	@$(MKDIR_P) static
	@echo "  AR       $@"
	@$(LIBTOOL) --silent --tag=CC --mode=link $(CC) -o $@ $(lib_$*_la_OBJECTS) $(filter-out lib/%,$(lib_$*_la_LIBADD))
.PHONY: static
