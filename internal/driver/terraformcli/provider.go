package terraformcli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// handshakeTime is how long a provider may take to say where it listens, and
	// stopTime how long it may take to end, as Terraform has them.
	handshakeTime = time.Minute
	stopTime      = 2 * time.Second

	// tailLimit is how much of a provider's standard error is kept, in bytes, and
	// lastLines how many lines of that are shown.
	tailLimit = 64 << 10
	lastLines = 100
)

// cookieVariable is set for each provider, and only for those.
const cookieVariable = "TF_PLUGIN_MAGIC_COOKIE"

// handshake is the environment with which Terraform starts a provider. The value is
// in Terraform's and each provider's source. It protects nothing: it keeps people from
// starting a provider by mistake.
var handshake = map[string]string{
	cookieVariable:             "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
	"PLUGIN_PROTOCOL_VERSIONS": "5,6",
	"PLUGIN_MIN_PORT":          "10000",
	"PLUGIN_MAX_PORT":          "25000",
}

// providerProcess is a process of a provider.
type providerProcess struct {
	source   string
	protocol int
	socket   string
	cmd      *exec.Cmd
	first    chan string // the first line of its standard output
	errors   *tail
	ended    chan struct{} // closed when why is set
	why      string
}

// start starts the provider for the directory of a task. It ends with the thread
// that has started it, where that is possible.
func (p providerPackage) start(dir string, env map[string]string) (*providerProcess, error) {
	started := &providerProcess{source: p.source, first: make(chan string, 1), errors: &tail{}, ended: make(chan struct{})}
	cmd := exec.Command(p.binary)
	cmd.Dir = dir
	env = maps.Clone(env)
	maps.Copy(env, handshake)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said := false
	cmd.Stdout = &lineWriter{line: func(line string) {
		if !said {
			said = true
			started.first <- line
		}
	}}
	cmd.Stderr = started.errors
	cmd.WaitDelay = time.Second // for processes of the provider that keep its output open
	cmd.SysProcAttr = withThread()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the provider %s: %w", p.source, err)
	}
	started.cmd = cmd
	go func() {
		err := cmd.Wait()
		if started.why = cmd.ProcessState.String(); err != nil {
			started.why = err.Error()
		}
		close(started.ended)
	}()
	return started, nil
}

// shakeHands waits until the provider listens.
func (p *providerProcess) shakeHands(ctx context.Context) error {
	select {
	case line := <-p.first:
		// CORE-PROTOCOL|PROTOCOL|NETWORK|ADDRESS|TYPE|CERTIFICATE, and more in later versions
		parts := strings.Split(line, "|")
		if len(parts) < 5 || parts[0] != "1" || parts[2] != "unix" || parts[4] != "grpc" || len(parts) > 5 && parts[5] != "" {
			return fmt.Errorf("start the provider %s: it speaks another protocol", p.source)
		}
		protocol, err := strconv.Atoi(parts[1])
		if err != nil || protocol != 5 && protocol != 6 {
			return fmt.Errorf("start the provider %s: it has the protocol %q", p.source, parts[1])
		}
		p.protocol, p.socket = protocol, parts[3]
		return nil
	case <-p.ended:
		return fmt.Errorf("start the provider %s: %s", p.source, p.why)
	case <-ctx.Done():
		return fmt.Errorf("start the provider %s: %w", p.source, context.Cause(ctx))
	case <-time.After(handshakeTime):
		return fmt.Errorf("start the provider %s: it does not listen after %s", p.source, handshakeTime)
	}
}

// hasEnded reports whether the process has ended, and how.
func (p *providerProcess) hasEnded() (why string, ended bool) {
	select {
	case <-p.ended:
		return p.why, true
	default:
		return "", false
	}
}

// stop ends the provider as Terraform does: by a request to its server, and if it does not
// follow, with force.
func (p *providerProcess) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if p.socket == "" || p.shutdown(ctx) != nil {
		cancel()
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // it has ended already
		<-p.ended
	}
}

// shutdown sends the request plugin.GRPCController/Shutdown, which has no content. The server
// may end before it answers.
func (p *providerProcess) shutdown(ctx context.Context) error {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/plugin.GRPCController/Shutdown", bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	answer, err := transport.RoundTrip(request)
	if answer != nil {
		_, _ = io.Copy(io.Discard, answer.Body) // nothing
		return answer.Body.Close()
	}
	if dialed := (*net.OpError)(nil); errors.As(err, &dialed) && dialed.Op == "dial" {
		return err
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailLimit; over > tailLimit {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// lastWords returns the beginning of the last panic, or the last lines if there is none.
func (t *tail) lastWords() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			lines = lines[i:]
			return strings.Join(lines[:min(len(lines), lastLines)], "\n")
		}
	}
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}
