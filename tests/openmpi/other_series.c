/* The preloaded library makes Open MPI's core library report another series than the component was built
 * for. 4.0 and 4.1 have equal library names, so only this version distinguishes them. */
const char opal_version_string[] = "4.0.3";
