// Package interop proves that holdfast and Redisson share locks: the real
// Redisson, from its published artifact, in a JVM, on the other side of every kind
// of lock.
//
// java/ is a small program that obeys commands on its standard input. [Peer] runs
// it. The tests need a JDK and Maven, and say so.
package interop
