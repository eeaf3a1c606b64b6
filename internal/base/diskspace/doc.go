// Package diskspace says how much can still be written to a disk.
package diskspace
