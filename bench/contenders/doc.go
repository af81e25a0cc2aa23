// Package contenders has the libraries that are compared, each on a client: holdfast, its peers, Redisson in a JVM, and
// two minimal scripts, which are no lock but the limit. A session is a contender that is connected to a place.
//
// A JVM runs whole cells itself (java/RedissonBench.java), with a thread for each goroutine.
package contenders
