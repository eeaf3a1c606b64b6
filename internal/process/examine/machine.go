package examine

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/diskspace"
)

const (
	// leastSpace is what a small provider, states and the store need for a while.
	leastSpace = 500 << 20
	// answerTimeout is how long the program that has the port may take to answer.
	answerTimeout = 3 * time.Second
)

// checkDisk looks how much space is left where the tasks have their folders.
func (e *examination) checkDisk(context.Context) (string, error) {
	dir := existing(e.cfg.WorkingDir)
	free, known := diskspace.Free(dir)
	return judgeSpace(dir, free, known)
}

// judgeSpace says whether the space that is left in a folder is enough.
func judgeSpace(dir string, free uint64, known bool) (string, error) {
	if !known {
		return "", notChecked("the free space of %s is not known on this system", dir)
	}
	words := fmt.Sprintf("%s free in %s", size(free), dir)
	if free < leastSpace {
		return "", fmt.Errorf("only %s", words)
	}
	return words, nil
}

// existing returns the path, or the folder above it that exists.
func existing(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

func size(bytes uint64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// checkPort looks whether the port of the HTTP API is free, or who has it.
func (e *examination) checkPort(ctx context.Context) (string, error) {
	if e.cfg.Port == 0 {
		return "start takes any free port", nil
	}
	address := net.JoinHostPort(e.cfg.API.BindAddress, strconv.Itoa(e.cfg.Port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err == nil {
		return fmt.Sprintf("%d is free", e.cfg.Port), listener.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.Errno(10048)) { // the second is Windows's
		return "", fmt.Errorf("listen on port %d: %w", e.cfg.Port, err)
	}
	if e.isTerrapulse(ctx) {
		return fmt.Sprintf("an instance of Terrapulse serves the HTTP API on %d", e.cfg.Port), nil
	}
	return "", fmt.Errorf("another program has port %d", e.cfg.Port)
}

// isTerrapulse reports whether the program that has the port answers as Terrapulse does.
func (e *examination) isTerrapulse(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, answerTimeout)
	defer stop()
	host := e.cfg.API.BindAddress
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http"
	if e.cfg.TLS.Enabled {
		scheme = "https"
	}
	url := fmt.Sprintf("%s://%s/v1/version", scheme, net.JoinHostPort(host, strconv.Itoa(e.cfg.Port)))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	// The answer is only looked at: nothing secret is sent, so the certificate does not matter.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if pair, err := tls.LoadX509KeyPair(e.cfg.TLS.Cert, e.cfg.TLS.Key); e.cfg.TLS.Enabled && err == nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if strings.Contains(resp.Header.Get("WWW-Authenticate"), `realm="terrapulse"`) {
		return true // it needs a token
	}
	var answer struct {
		RequestID string `json:"request_id"`
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer) == nil && answer.RequestID != ""
}
