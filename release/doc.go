// Command release makes, signs and verifies a release of the modules of this repository, all in one
// version. It pushes nothing, and writes to no registry.
//
//	release pin VERSION         have the modules require each other in VERSION
//	release check VERSION       fail if the tree is not ready to be that version
//	release make VERSION DIR    check, build into DIR, sign, and tag each module
//	release build VERSION DIR   build the tree as it is into DIR, unsigned
//	release image VERSION DIR   the same for Linux alone, for the sake of the image
//	release verify VERSION DIR  verify a release that was downloaded to DIR, and build it again
//
// The Makefile has a target for each; CONTRIBUTING.md says in which order they are used, and
// docs/verify.md what verifying proves. check and make sign with the SSH key that RELEASE_KEY names (sign.go).
//
// What is built is not the tree itself, but its modules as a module proxy would serve them
// (proxy.go): as those who install the tool by its version will get them.
package main
