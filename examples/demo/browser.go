package main

import (
	"os"
	"os/exec"
	"runtime"
)

// browse opens an address in the browser of this desktop, and reports whether there is one.
func browse(address string) bool {
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return false
		}
		cmd = exec.Command("xdg-open", address)
	}
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }() // whatever becomes of it, the address is printed
	return true
}
