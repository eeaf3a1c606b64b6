package terraformcli

import (
	"io"
	"os"
	"syscall"
	"time"
)

// traceDrain limits reading the rest of a trace after Terraform has ended.
const traceDrain = 10 * time.Second

// collect makes a named pipe and copies its content to w until await is called and
// the pipe is empty, so that the unredacted trace is never on disk. Only for Linux,
// where Terraform dies with this process: elsewhere it would wait forever for a reader.
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
