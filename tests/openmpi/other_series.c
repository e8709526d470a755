/* Preloaded, it makes Open MPI's core library say that it is of another series than the component was built for.
 * 4.0 shares its libraries' names with 4.1, so that nothing but this version tells them apart. */
const char opal_version_string[] = "4.0.3";
