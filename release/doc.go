// Command release makes a release of the modules of this repository, all in one version. It
// pushes nothing, and writes to no registry.
//
//	release pin VERSION        have the modules require each other in that version
//	release check VERSION      fail if the tree is not ready to be that version
//	release build VERSION DIR  build the tool for each system into DIR
//	release tag VERSION        tag each module
//
// The Makefile has a target for each; CONTRIBUTING.md says in which order they are used.
//
// What is built is not the tree itself, but its modules as a module proxy would serve them
// (proxy.go): as those who install the tool by its version will get them.
package main
