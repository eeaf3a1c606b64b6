//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lambda is Lambda as far as the stack needs it: functions are built bootstrap
// files under the runtime interface emulator, as many processes of one as
// there are invocations at a time, and the API to invoke them is spoken.
type lambda struct {
	t   testing.TB
	rie string
	URL string // for AWS_ENDPOINT_URL_LAMBDA

	mu        sync.Mutex
	functions map[string]*function
	work      sync.WaitGroup // asynchronous invocations

	pending     int // asynchronous invocations that have not ended
	events      int // asynchronous invocations
	invocations int
	billed      time.Duration // what they took
}

// function is one function of the stack.
type function struct {
	name      string
	bootstrap string
	env       map[string]string
	timeout   time.Duration
	log       string // file

	idle   []*environment // processes that wait for an invocation
	busy   []*environment
	cold   int // processes that were started
	failed []string
}

// environment is one process of a function.
type environment struct {
	cmd    *exec.Cmd
	url    string
	killed bool // maybe just after it has answered
}

func newLambda(t testing.TB, rie string) *lambda {
	l := &lambda{t: t, rie: rie, functions: map[string]*function{}}
	server := httptest.NewServer(l)
	l.URL = server.URL
	t.Cleanup(func() {
		l.mu.Lock()
		for _, f := range l.functions {
			for _, e := range append(f.idle, f.busy...) {
				e.kill()
			}
		}
		l.mu.Unlock()
		l.work.Wait()
		server.Close()
	})
	return l
}

// deploy makes a function, or gives it another environment: its processes are
// started anew.
func (l *lambda) deploy(name, bootstrap string, timeout time.Duration, env map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.functions[name]
	if old != nil {
		for _, e := range old.idle {
			e.kill()
		}
	}
	l.functions[name] = &function{name: name, bootstrap: bootstrap, env: maps.Clone(env), timeout: timeout,
		log: filepath.Join(l.t.TempDir(), name+".log")}
}

// logs is everything that a function has logged.
func (l *lambda) logs(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := os.ReadFile(l.functions[name].log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Error(err)
	}
	return string(text)
}

// kill ends every process of a function that works on an invocation.
func (l *lambda) kill(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.functions[name].busy {
		e.kill()
		e.killed = true
	}
}

// ServeHTTP is the API's operation Invoke.
func (l *lambda) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
	payload, err := io.ReadAll(r.Body)
	l.mu.Lock()
	name, alias, _ := strings.Cut(name, ":")
	_, known := l.functions[name]
	l.mu.Unlock()
	known = known && (alias == "" || alias == "inspect") // functions/reconcile tests what an alias permits
	if err != nil || !ok || !known {
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"Message":"Function not found: %s"}`, name)
		return
	}
	if r.Header.Get("X-Amz-Invocation-Type") == "Event" {
		l.mu.Lock()
		l.pending++
		l.events++
		l.mu.Unlock()
		l.work.Go(func() {
			l.invoke(context.Background(), name, payload)
			l.mu.Lock()
			l.pending--
			l.mu.Unlock()
		})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer, err := l.invoke(r.Context(), name, payload)
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		json.NewEncoder(w).Encode(map[string]string{"errorMessage": err.Error()})
		return
	}
	w.Write(answer)
}

// asked is how many asynchronous invocations there were.
func (l *lambda) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events
}

// maxAnswer is the largest answer that Lambda returns, in bytes.
const maxAnswer = 6<<20 + 100

// invoke invokes a function and returns its answer; its error is what the
// function answered, or that it was killed.
func (l *lambda) invoke(ctx context.Context, name string, payload []byte) ([]byte, error) {
	f, e, err := l.take(name)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	answer, err := post(ctx, e.url, payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invocations++
	l.billed += time.Since(began)
	for i := range f.busy {
		if f.busy[i] == e {
			f.busy = append(f.busy[:i], f.busy[i+1:]...)
			break
		}
	}
	if err == nil && !e.killed && l.functions[name] == f {
		f.idle = append(f.idle, e)
	} else {
		e.kill()
	}
	if err != nil {
		f.failed = append(f.failed, err.Error())
		return nil, fmt.Errorf("the process of %s ended: %w", name, err)
	}
	var failure struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
	}
	if json.Unmarshal(answer, &failure) == nil && failure.Message != "" {
		f.failed = append(f.failed, failure.Message)
		return nil, errors.New(failure.Message)
	}
	if len(answer) > maxAnswer {
		return nil, errors.New("response payload size exceeded maximum allowed payload size (6291556 bytes)")
	}
	return answer, nil
}

func post(ctx context.Context, url string, payload []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}

// take returns a process of the function that nobody uses, starting one if
// there is none.
func (l *lambda) take(name string) (*function, *environment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.functions[name]
	if n := len(f.idle); n > 0 {
		e := f.idle[n-1]
		f.idle, f.busy = f.idle[:n-1], append(f.busy, e)
		return f, e, nil
	}
	e, err := l.start(f)
	if err != nil {
		return nil, nil, err
	}
	f.busy = append(f.busy, e)
	f.cold++
	return f, e, nil
}

// start starts a process of the function and waits until it takes invocations.
func (l *lambda) start(f *function) (e *environment, err error) {
	for range 3 { // another process may take a port before the emulator does
		if e, err = l.try(f); !errors.Is(err, errEnded) {
			break
		}
	}
	return e, err
}

// errEnded means that an emulator has ended before it took an invocation.
var errEnded = errors.New("the emulator has ended by itself")

func (l *lambda) try(f *function) (*environment, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	cmd := exec.Command(l.rie, "--log-level", "error", "--runtime-interface-emulator-address", address,
		"--runtime-api-address", fmt.Sprintf("127.0.0.1:%d", ports[1]), f.bootstrap)
	cmd.Env = append(os.Environ(), fmt.Sprintf("AWS_LAMBDA_FUNCTION_TIMEOUT=%d", int(f.timeout.Seconds())), "AWS_LAMBDA_FUNCTION_NAME="+f.name, "TMPDIR="+l.t.TempDir())
	for name, value := range f.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	log, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	e := &environment{cmd: cmd, url: "http://" + address + "/2015-03-31/functions/function/invocations"}
	for deadline := time.After(time.Minute); !listens(cmd.Process.Pid, ports); {
		select {
		case <-ended:
			return nil, fmt.Errorf("%s: %w", f.name, errEnded)
		case <-deadline:
			e.kill()
			return nil, fmt.Errorf("the emulator of %s does not listen", f.name)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return e, nil
}

// listens reports whether a process listens on all the ports of 127.0.0.1: what answers there may be
// another one.
func listens(pid int, ports []int) bool {
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false
	}
	own := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		target, _ := os.Readlink(file) // of a file that was closed, there is none
		own[target] = true
	}
	found := 0
	for line := range strings.Lines(string(sockets)) {
		const address, status, inode = 1, 3, 9
		if fields := strings.Fields(line); len(fields) > inode && fields[status] == "0A" && own["socket:["+fields[inode]+"]"] {
			for _, port := range ports {
				if fields[address] == fmt.Sprintf("0100007F:%04X", port) {
					found++
				}
			}
		}
	}
	return found == len(ports)
}

// kill ends the process and all that it has started: the emulator gives the function a process
// group of its own.
func (e *environment) kill() {
	all := []int{e.cmd.Process.Pid}
	for n := 0; n < len(all); n++ {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[n]))
		for _, thread := range threads {
			children, _ := os.ReadFile(thread) // of a thread that has ended, there are none
			for field := range strings.FieldsSeq(string(children)) {
				if pid, err := strconv.Atoi(field); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	for _, pid := range all {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// freePorts returns ports of the loopback address that nobody uses.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// firstRequest is how long a process of a function takes from its start until
// it asks the runtime API for its first invocation.
func (l *lambda) firstRequest(t testing.TB, name string) time.Duration {
	t.Helper()
	asked := make(chan struct{}, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	defer api.Close()
	l.mu.Lock()
	f := l.functions[name]
	l.mu.Unlock()
	cmd := exec.Command(f.bootstrap)
	cmd.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(api.URL, "http://"))
	for name, value := range f.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("it never asked")
	}
	return time.Since(began)
}
