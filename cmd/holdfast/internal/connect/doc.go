// Package connect turns a Redis URL, as operators write it, into a client.
//
// Nothing in it ever prints a URL or a part of one other than the hosts of a
// URL that it has understood: a URL may hold a password, and one that is
// malformed may hold it anywhere.
package connect
