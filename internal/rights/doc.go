// Package rights lists the rights that a Redis user needs for each kind of lock.
//
// The commands are those that the kind's scripts call, by their text, and the keys and channels those of its row in
// [protocol.Kinds]; see kindOf for what is added. docs/acl.md shows them, holdfast doctor tries them on a server, holdfast acl prints them as a
// rule of ACL SETUSER, and the tests in test/rights and test/servers prove that all of them suffice and that none can be left out.
// Nothing here talks to Redis.
//
// Keys and channels are templates: NAME stands for the lock's name, {NAME} for the name with a hash tag, and TENANT for the
// beginning of the tenant's client ids, empty without a tenant. [Rights.For] fills them in.
package rights
