// Package peers shows known bugs of other lock libraries in small models of their way, and that the
// same schedule does no harm here. The models are written from what users have reported: README.md has
// the reports, and what came of each.
//
// A model is a few lines on the server in memory, under fake time. It is not that library: it has the
// one step that the report is about, in its plainest form, so that the schedule can be seen to be able to do harm.
package peers
