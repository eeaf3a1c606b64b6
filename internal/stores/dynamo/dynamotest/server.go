// Package dynamotest starts DynamoDB Local for tests, AWS's own emulator, which has the same
// conditions and transactions as DynamoDB, and refuses them in the same way.
package dynamotest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// Region is the region of the tables.
const Region = "eu-west-1"

// server is the server of this process. It ends with the process.
var server struct {
	sync.Mutex
	url   string
	input io.Closer // keeps the server running; never closed, and must not be garbage-collected
}

// Start returns the address of a server that all tests of this process share, for
// AWS_ENDPOINT_URL_DYNAMODB. It starts in about two seconds.
func Start(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.url == "" {
		var err error
		for range 3 { // another process may take the port first
			if server.url, err = start(t); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("start DynamoDB Local: %v", err)
		}
	}
	return server.url
}

func start(t testing.TB) (string, error) {
	lib := testtools.DynamoDB(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	// The shell ends the server when its own standard input ends, and so when this process ends,
	// for whatever reason.
	// It runs for seconds: Java's second compiler and its parallel collector would never save the time
	// that they take.
	cmd := exec.Command("sh", "-c", `exec 3<&0; "$@" & pid=$!; { cat; kill -9 $pid; } <&3 >/dev/null 2>&1 & wait $pid`, "sh",
		"java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.library.path="+lib, "-Dsqlite4java.library.path="+lib, "-cp", filepath.Join(lib, "*"),
		"software.amazon.dynamodb.services.local.main.ServerRunner", "-inMemory", "-sharedDb", "-port", fmt.Sprint(port))
	cmd.Env = append(os.Environ(), "DDB_LOCAL_TELEMETRY=0")
	input, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second // the shell's cat has its output, too
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := dynamodb.NewFromConfig(Config(url))
	for {
		if _, err = client.ListTables(ctx, &dynamodb.ListTablesInput{}); err == nil {
			server.input = input
			return url, nil
		}
		select {
		case err := <-ended:
			return "", fmt.Errorf("it ended: %v\n%s", err, said.Bytes())
		case <-ctx.Done():
			input.Close()
			return "", fmt.Errorf("it does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Config returns the configuration of clients of a server.
func Config(url string) aws.Config {
	return aws.Config{Region: Region, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Logger: logging.Nop{}} // it warns of errors without a checksum, which DynamoDB also returns
}

// Table creates a table of Terrapulse and returns its name.
func Table(t testing.TB, url string) string {
	t.Helper()
	client := dynamodb.NewFromConfig(Config(url))
	name := "test-" + uuid.NewString()
	if _, err := client.CreateTable(t.Context(), dynamo.Table(name)); err != nil {
		t.Fatalf("make a table: %v", err)
	}
	_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamo.Expires), Enabled: aws.Bool(true)}})
	if err != nil {
		t.Fatalf("have the table's items expire: %v", err)
	}
	return name
}
