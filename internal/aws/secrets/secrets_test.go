package secrets_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
)

const (
	secretARN    = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:consul/token-AbCdEf"
	parameterARN = "arn:aws:ssm:eu-central-1:123456789012:parameter/consul/token"
)

// vault simulates Secrets Manager and SSM: it speaks their protocol and has a value for each name.
type vault struct {
	source *secrets.Source
	now    time.Time

	mu     sync.Mutex
	values map[string]string // by SecretId and stage, or by Name
	fault  string            // the error code of every answer
	reads  int
	asked  string // the last request
}

func newVault(t *testing.T, values map[string]string) *vault {
	t.Helper()
	v := &vault{values: values, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	v.source = secrets.New(aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})
	v.source.Now = func() time.Time { return v.now }
	return v
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	var in struct {
		SecretId, VersionStage, VersionId, Name string
		WithDecryption                          bool
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, service, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=k/")
	v.asked = fmt.Sprintf("%s %s%s%s%s%s %v", r.Header.Get("X-Amz-Target"), in.SecretId, in.Name, in.VersionStage, in.VersionId,
		strings.Split(service, "/")[1], in.WithDecryption)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if v.fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]string{"__type": v.fault, "message": "no"})
		return
	}
	if in.SecretId != "" {
		json.NewEncoder(w).Encode(map[string]any{"SecretString": v.values[in.SecretId+in.VersionStage+in.VersionId]})
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"Parameter": map[string]string{"Value": v.values[in.Name]}})
}

func (v *vault) set(name, value, fault string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name], v.fault = value, fault
}

func (v *vault) get(t *testing.T, name string) string {
	t.Helper()
	got, err := v.source.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestGet_ReadsASecretByItsARN(t *testing.T) {
	v := newVault(t, map[string]string{
		secretARN: "plain", parameterARN: " with a line end \r\n\n",
		secretARN + "1": `{"token": "from JSON", "port": 1}`, secretARN + "AWSPREVIOUS": "previous", secretARN + "v7": `{"token": "seventh"}`,
	})
	for _, tt := range []struct{ name, want, asked string }{
		{secretARN, "plain", "secretsmanager.GetSecretValue " + secretARN + "eu-central-1 false"},
		{secretARN + "::AWSPREVIOUS:", "previous", "secretsmanager.GetSecretValue " + secretARN + "AWSPREVIOUSeu-central-1 false"},
		{secretARN + ":token::v7", "seventh", "secretsmanager.GetSecretValue " + secretARN + "v7eu-central-1 false"},
		{parameterARN, " with a line end", "AmazonSSM.GetParameter " + parameterARN + "eu-central-1 true"},
	} {
		if got := v.get(t, tt.name); got != tt.want || v.asked != tt.asked {
			t.Errorf("%s is %q, asked %q", tt.name, got, v.asked)
		}
	}
	v.set(secretARN, `{"token": "from JSON", "port": 1}`, "")
	if got := v.get(t, secretARN+":token::"); got != "from JSON" {
		t.Errorf("the key is %q", got)
	}
}

func TestGet_ErrorsNeverContainTheValue(t *testing.T) {
	for _, tt := range []struct {
		name, value, fault string
		want               []string
	}{
		{"token", "", "", []string{`"token" is not an ARN`}},
		{"arn:aws:s3:::files", "", "", []string{"is an ARN of s3"}},
		{"arn:aws:secretsmanager:eu-central-1:1:secret", "", "", []string{"not an ARN of a secret"}},
		{"arn:aws:ssm:eu-central-1:1:document/x", "", "", []string{"not an ARN of a parameter"}},
		{secretARN, "", "", []string{secretARN + " is empty"}},
		{secretARN + ":token::", "S3CRET", "", []string{"not a JSON object", `"token"`}},
		{secretARN + ":token::", `{"tokn": "S3CRET"}`, "", []string{`no key "token"`}},
		{secretARN + ":token::", `{"token": {"S3CRET": 1}}`, "", []string{`no key "token" with a string or a number`}},
		{secretARN, "", "ResourceNotFoundException", []string{secretARN, "it does not exist"}},
		{parameterARN, "", "ParameterNotFound", []string{parameterARN, "it does not exist"}},
		{secretARN, "", "AccessDeniedException", []string{secretARN, "needs secretsmanager:GetSecretValue", "kms:Decrypt"}},
		{parameterARN, "", "AccessDeniedException", []string{parameterARN, "needs ssm:GetParameter"}},
		{secretARN, "", "DecryptionFailure", []string{"kms:Decrypt"}},
		{secretARN, "", "InvalidRequestException", []string{"marked for deletion"}},
		{secretARN, "", "InternalServiceError", []string{secretARN, "InternalServiceError"}},
	} {
		v := newVault(t, map[string]string{secretARN: tt.value})
		v.fault = tt.fault
		_, err := v.source.Get(t.Context(), tt.name)
		if err == nil {
			t.Errorf("%s %s: no error", tt.name, tt.fault)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "S3CRET") {
				t.Errorf("not said: %s\nin: %s", want, err)
			}
		}
	}
}

func TestGet_RotatedSecretIsUsedWithin5Minutes(t *testing.T) {
	v := newVault(t, map[string]string{secretARN: "old"})
	v.get(t, secretARN)
	v.set(secretARN, "new", "")
	v.now = v.now.Add(4 * time.Minute)
	if got := v.get(t, secretARN); got != "old" || v.reads != 1 {
		t.Errorf("it is %q after %d reads", got, v.reads)
	}
	v.now = v.now.Add(time.Minute)
	if got := v.get(t, secretARN); got != "new" || v.reads != 2 {
		t.Errorf("it is %q after %d reads", got, v.reads)
	}
}

func TestGet_CachedValueIsUsedDuringAnOutage(t *testing.T) {
	v := newVault(t, map[string]string{secretARN: "old"})
	v.get(t, secretARN)
	v.set(secretARN, "new", "InternalServiceError")
	for range 10 {
		v.now = v.now.Add(5*time.Minute + time.Second)
		for range 3 {
			if got := v.get(t, secretARN); got != "old" {
				t.Fatalf("it is %q", got)
			}
		}
	}
	if v.reads != 11 {
		t.Errorf("it was read %d times", v.reads)
	}
	v.now = v.now.Add(10 * time.Minute)
	if got, err := v.source.Get(t.Context(), secretARN); err == nil {
		t.Errorf("after more than an hour it is still %q", got)
	}
	v.set(secretARN, "new", "")
	if got := v.get(t, secretARN); got != "new" {
		t.Errorf("it is %q", got)
	}
}

func TestGet_RevokedAccessEndsTheUseOfASecret(t *testing.T) {
	v := newVault(t, map[string]string{secretARN: "old"})
	v.get(t, secretARN)
	v.set(secretARN, "old", "AccessDeniedException")
	v.now = v.now.Add(5 * time.Minute)
	if got, err := v.source.Get(t.Context(), secretARN); err == nil {
		t.Errorf("it is %q", got)
	}
}

func TestDrop_DeniedValueIsReadAgainOnce(t *testing.T) {
	held := func(token string) string { return `{"consul_token": "` + token + `\n"}` }
	v := newVault(t, map[string]string{secretARN: held("token-1")})
	v.get(t, secretARN)
	v.set(secretARN, held("token-2"), "")
	var all sync.WaitGroup
	for range 8 { // requests that were refused at the same time
		all.Go(func() {
			v.source.Drop(secretARN, "token-1")
			if got, err := v.source.Stack(t.Context(), secretARN); err != nil || got.ConsulToken != "token-2" {
				t.Errorf("it is %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	if v.reads != 2 {
		t.Errorf("it was read %d times", v.reads)
	}
	v.source.Drop("arn:of:another", "token-2")
	v.set(secretARN, held("token-3"), "InternalServiceError")
	v.source.Drop(secretARN, "token-2")
	if got, err := v.source.Stack(t.Context(), secretARN); err == nil {
		t.Errorf("a value that was refused is used again: %+v", got)
	}
}

func TestDrop_ComparesTheTokenAsConsulGetsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		text, denied string
		reads        int
	}{
		"escaped in the JSON":      {`{"consul_token": "a\u0026b\/\"c\""}`, `a&b/"c"`, 2},
		"with a line end":          {`{"consul_token": "token\r\n"}`, "token", 2},
		"none":                     {`{"vault_token": "token"}`, "", 2},
		"a part of another":        {`{"consul_token": "token-2"}`, "token", 1},
		"the value of another key": {`{"consul_token": "new", "vault_token": "token"}`, "token", 1},
	} {
		v := newVault(t, map[string]string{secretARN: tt.text})
		v.get(t, secretARN)
		v.source.Drop(secretARN, tt.denied)
		if v.get(t, secretARN); v.reads != tt.reads {
			t.Errorf("%s: it was read %d times, want %d", name, v.reads, tt.reads)
		}
	}
}
