//go:build !linux

package main

// workerCommand is not used here: containers run Linux.
const workerCommand = "worker"

func isInit() bool { return false }

func supervise() (int, error) { return 1, nil }

func takeEnvironment() error { return nil }
