package terraform

import (
	"io"
	"os"
	"syscall"
	"time"
)

// traceDrain is how long the end of a trace may take to come out of its pipe
// once Terraform has ended.
const traceDrain = 10 * time.Second

// collect makes a named pipe and writes what comes out of it to w, as it comes,
// until await is called and the pipe is empty. The trace is never on disk as
// Terraform writes it. Only where Terraform dies with this process: elsewhere it
// would wait for ever for somebody to read on.
func collect(path string, w io.Writer) (await func(), err error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	held, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // the pipe does not end between two writers
	if err != nil {
		r.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(w, r)
	}()
	return func() {
		held.Close()
		r.SetReadDeadline(time.Now().Add(traceDrain))
		<-done
		r.Close()
	}, nil
}
