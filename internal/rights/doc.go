// Package rights lists the rights that a Redis user needs for each kind of lock.
//
// The list is the only one: docs/acl.md shows it, holdfast doctor tries it on a server, holdfast acl prints it as a rule of
// ACL SETUSER, and the tests in test/rights and test/servers prove that all of it suffices and that nothing of it can be left
// out. Nothing here talks to Redis.
//
// Keys and channels are templates: NAME stands for the lock's name, {NAME} for the name with a hash tag, and TENANT for the
// beginning of the tenant's client ids, empty without a tenant. [Rights.For] fills them in.
package rights
