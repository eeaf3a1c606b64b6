package buildinfo

// Version is the version of the program, such as v1.2.3. The build sets it.
var Version = "dev"
