package serve

import (
	"errors"
	"io"
	"net"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// plainRefusal answers plain HTTP on a TLS port, with the text of net/http.
const plainRefusal = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"Client sent an HTTP request to an HTTPS server.\n"

var errPlainHTTP = errors.New("the client sent an HTTP request to an HTTPS server")

// plainListener answers clients that send plain HTTP to a TLS port. It wraps the listener below
// TLS. net/http does the same, but not for PATCH and DELETE, and it closes the connection while a
// body is arriving, so that the client gets a reset instead of the answer.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &firstBytes{Conn: conn}, nil
}

// firstBytes is a connection that distinguishes TLS from HTTP by its first bytes.
type firstBytes struct {
	net.Conn
	known bool // that it is not plain HTTP; used only by the handshake's goroutine
}

// Read is first called by the TLS handshake, which net/http limits in time.
func (c *firstBytes) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.known || n == 0 {
		return n, err
	}
	c.known = true
	// A method begins with a capital letter. A TLS record begins with a byte below 32.
	if p[0] < 'A' || p[0] > 'Z' {
		return n, err
	}
	_, _ = io.WriteString(c.Conn, plainRefusal)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		// Closing with unread data resets the connection, and the answer is lost.
		_, _ = io.Copy(io.Discard, io.LimitReader(c.Conn, maxHeader+middleware.MaxBody))
	}
	return 0, errPlainHTTP
}
