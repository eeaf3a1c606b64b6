// Package gitsshtest serves git repositories over SSH to tests.
package gitsshtest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Server is an SSH server on loopback that runs the commands of git, for one client's key.
type Server struct {
	Addr string // host and port
	Key  string // the client's private key, in the format of OpenSSH
	Host string // the line for known_hosts

	t      testing.TB
	config *ssh.ServerConfig

	mu       sync.Mutex
	commands []string
}

// Start starts a server, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	s := &Server{t: t}
	host, _ := s.key()
	client, private := s.key()
	s.Key = private
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	s.config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = listener.Addr().String()
	s.Host = knownhosts.Line([]string{s.Addr}, host.PublicKey())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		ended.Wait()
	})
	ended.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ended.Go(func() { s.serve(conn) })
		}
	})
	return s
}

// key creates a key, and returns it also in PEM.
func (s *Server) key() (ssh.Signer, string) {
	s.t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		s.t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

// Commands returns the commands that clients have run.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	link, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return // a client with another key
	}
	defer link.Close()
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		channel, requests, err := opened.Accept()
		if err != nil {
			return
		}
		go s.session(channel, requests)
	}
}

// session runs the command of a session with this machine's git.
func (s *Server) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	env := os.Environ()
	for r := range requests {
		var variable struct{ Name, Value string }
		var command struct{ Text string }
		switch {
		case r.Type == "env" && ssh.Unmarshal(r.Payload, &variable) == nil:
			env = append(env, variable.Name+"="+variable.Value)
			_ = r.Reply(true, nil)
		case r.Type == "exec" && ssh.Unmarshal(r.Payload, &command) == nil && strings.HasPrefix(command.Text, "git-upload-pack "):
			_ = r.Reply(true, nil)
			s.mu.Lock()
			s.commands = append(s.commands, command.Text)
			s.mu.Unlock()
			cmd := exec.Command("sh", "-c", command.Text)
			cmd.Env, cmd.Stdout, cmd.Stderr = env, channel, channel.Stderr()
			in, err := cmd.StdinPipe()
			if err == nil {
				go func() {
					_, _ = io.Copy(in, channel)
					_ = in.Close()
				}()
				err = cmd.Run()
			}
			status := uint32(0)
			if err != nil {
				status = 1
				fmt.Fprintln(channel.Stderr(), err)
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			_ = r.Reply(false, nil)
		}
	}
}
