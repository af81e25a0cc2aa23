// Package engine acquires and holds locks.
package engine
