package testtools

import (
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"
)

// StartMoto starts moto, which ends with the test, and returns its address.
func StartMoto(t testing.TB) string {
	t.Helper()
	for range 3 { // another process may take the port before moto does
		if address := startMoto(t); address != "" {
			return address
		}
	}
	t.Fatal("moto ends by itself")
	return ""
}

// startMoto returns "" if moto has ended by itself.
func startMoto(t testing.TB) string {
	t.Helper()
	port := fmt.Sprint(FreePort(t))
	address := "http://127.0.0.1:" + port
	cmd := exec.Command(Moto(t), "--host", "127.0.0.1", "--port", port)
	var said Output
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := StartWithTest(cmd); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		answers := motoAnswers(address)
		select {
		case <-ended:
			t.Logf("moto has ended:\n%s", &said)
			return ""
		case <-time.After(50 * time.Millisecond):
		}
		if answers {
			return address
		}
	}
	t.Fatalf("moto does not answer:\n%s", &said)
	return ""
}

// motoAnswers reports whether moto answers at an address, and not another program.
func motoAnswers(address string) bool {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(address + "/moto-api/data.json")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
