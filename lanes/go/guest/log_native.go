//go:build !wasip1

package guest

// openDoor returns nil: a standalone program logs to standard error.
func openDoor() *batch { return nil }
