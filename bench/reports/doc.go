// Package reports has what people read: tables and charts of what the workloads have measured, the page that
// docs/benchmarks.md is, the goals, and the check of them.
package reports
