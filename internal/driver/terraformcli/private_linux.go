package terraformcli

import "golang.org/x/sys/unix"

// KeepPrivate keeps the environment and the memory of this process, which hold
// the credentials of Terrapulse, from other processes of the same user, such as
// the providers: they cannot read /proc/PID/environ and /proc/PID/mem any more, nor
// attach a debugger, unless they have CAP_SYS_PTRACE, as root has outside of
// containers. It also means that this process leaves no core dump. The processes
// that it starts are as before.
func KeepPrivate() error {
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
