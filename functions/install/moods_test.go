package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/base/awsenv"
)

// pipes is a listener without a network, so that a test can have a clock of its own.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// install sends a request of CloudFormation to the function as it is, in an account that is at the other
// end of its connections, and returns how long it took.
func install(t *testing.T, account http.Handler, e cfn.Event) (data map[string]any, took time.Duration, err error) {
	t.Helper()
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	folder := t.TempDir()
	err = errors.Join(os.Mkdir(filepath.Join(folder, "aarch64"), 0o755), os.WriteFile(filepath.Join(folder, "aarch64", "runner"), []byte("program"), 0o644))
	cfg, cfgErr := config(t.Context())
	if err := errors.Join(err, cfgErr); err != nil {
		t.Fatal(err)
	}
	listener, server := pipes{make(chan net.Conn), make(chan struct{})}, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a pipe holds nothing, so the client would still be sending
		r.Body = io.NopCloser(bytes.NewReader(body))
		account.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	cfg.BaseEndpoint = aws.String("http://aws.example.com")
	cfg.HTTPClient = cfg.HTTPClient.(*awshttp.BuildableClient).WithTransportOptions(func(tr *http.Transport) {
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			here, there := net.Pipe()
			select {
			case listener.conns <- there:
				return here, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	began := time.Now()
	_, data, err = serve(t.Context(), cfg, folder, e, slog.New(slog.DiscardHandler))
	took = time.Since(began)
	_ = server.Close()
	return data, took, err
}

// resources are the custom resources, each with an account.
var resources = map[string]struct {
	properties map[string]any
	account    func() http.Handler
	installed  func(t *testing.T, account http.Handler, data map[string]any) bool
}{
	typeProgram: {map[string]any{"Location": location, "Architecture": "arm64"}, func() http.Handler {
		backend := s3mem.New()
		_ = backend.CreateBucket("the-bucket")
		return &bucketAccount{Handler: gofakes3.New(backend).Server(), backend: backend}
	}, func(t *testing.T, account http.Handler, data map[string]any) bool {
		address, _ := data["Url"].(string)
		object, err := account.(*bucketAccount).backend.HeadObject("the-bucket", strings.TrimPrefix(address, "s3://the-bucket/"))
		return err == nil && object.Size > 0
	}},
	typeNetwork: {map[string]any{"Subnets": "subnet-1", "OwnGroup": "true"}, func() http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `<answer><subnetSet><item><subnetId>subnet-1</subnetId><vpcId>vpc-1</vpcId></item></subnetSet><routeTableSet><item><associationSet><item><main>true</main></item></associationSet>
				<routeSet><item><destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><natGatewayId>nat-1</natGatewayId></item></routeSet></item></routeTableSet></answer>`)
		})
	}, func(_ *testing.T, _ http.Handler, data map[string]any) bool { return data["VpcId"] == "vpc-1" }},
	typeProtection: {map[string]any{"Table": "table"}, func() http.Handler { return &tableAccount{} },
		func(_ *testing.T, account http.Handler, _ map[string]any) bool {
			return account.(*tableAccount).protected
		}},
	typeLinkedRole: {map[string]any{"Probe": "terrapulse-probe"}, func() http.Handler { return &ecsAccount{unknown: 1} },
		func(_ *testing.T, account http.Handler, _ map[string]any) bool {
			a := account.(*ecsAccount)
			return a.unknown == 0 && len(a.clusters) == 0 && len(a.requests) <= 6 // it does not wait for what is gone
		}},
	typeGroupUse: {map[string]any{"Group": "sg-1"}, func() http.Handler { return http.NotFoundHandler() },
		func(*testing.T, http.Handler, map[string]any) bool { return true }},
}

// bucketAccount is an account whose bucket is in the name of the host.
type bucketAccount struct {
	http.Handler
	backend gofakes3.Backend
}

func (a *bucketAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, _, _ := strings.Cut(r.Host, ".")
	r.URL.Path = "/" + bucket + r.URL.Path
	a.Handler.ServeHTTP(w, r)
}

// tableAccount is an account with a table. DynamoDB changes it during one request after another change.
type tableAccount struct{ protected, busy bool }

func (a *tableAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch update := strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateTable"); {
	case update && a.busy:
		a.busy = false
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceInUseException","message":"Table is being updated"}`)
		return
	case update:
		a.protected, a.busy = strings.Contains(string(body), `"DeletionProtectionEnabled":true`), true
	}
	fmt.Fprintf(w, `{"Table":{"DeletionProtectionEnabled":%v}}`, a.protected)
}

// mood is how AWS answers for a while. take carries the request out, and writes the answer.
type mood func(w http.ResponseWriter, r *http.Request, take func(http.ResponseWriter))

// refuses returns a mood that answers with an error in the protocol of the service.
func refuses(status int, code string) mood {
	return func(w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
		if r.Header.Get("X-Amz-Target") != "" {
			if status != http.StatusInternalServerError {
				status = http.StatusBadRequest
			}
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"__type":%q,"message":"refused"}`, code)
			return
		}
		w.WriteHeader(status)
		if strings.HasPrefix(r.Host, "the-bucket.") {
			fmt.Fprintf(w, `<Error><Code>%s</Code><Message>refused</Message></Error>`, code)
			return
		}
		fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>refused</Message></Error></Errors></Response>`, code)
	}
}

func silent(_ http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
	<-r.Context().Done()
}

// What AWS answers for a while does not end a deployment: one failure would roll all of it back.
func TestServe_OutlivesTheMoodsOfAWS(t *testing.T) {
	oftener := 1 + awsenv.Retryer().MaxAttempts() // than the SDK repeats a request
	breaks := func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) { panic(http.ErrAbortHandler) }
	for name, tt := range map[string]struct {
		mood  mood
		lasts int // requests of each operation
	}{
		"throttling":                 {refuses(http.StatusServiceUnavailable, "ThrottlingException"), oftener},
		"an error of its own":        {refuses(http.StatusInternalServerError, "InternalError"), oftener},
		"rights not yet in force":    {refuses(http.StatusForbidden, "AccessDenied"), 2},
		"a connection that breaks":   {breaks, oftener},
		"no answer within the limit": {silent, 1},
		"slow, but within the limit": {func(w http.ResponseWriter, _ *http.Request, take func(http.ResponseWriter)) {
			time.Sleep(6 * time.Second)
			take(w)
		}, 1000},
		"an answer that is lost": {func(w http.ResponseWriter, r *http.Request, take func(http.ResponseWriter)) {
			take(httptest.NewRecorder())
			breaks(w, r, nil)
		}, 1},
		"an answer after the limit": {func(w http.ResponseWriter, r *http.Request, take func(http.ResponseWriter)) {
			take(httptest.NewRecorder())
			silent(w, r, nil)
		}, 1},
	} {
		for kind, resource := range resources {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asked := map[string]int{} // by operation; those of EC2 count as one
					account := resource.account()
					data, took, err := install(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						operation := r.Method + r.Header.Get("X-Amz-Target")
						if asked[operation]++; asked[operation] > tt.lasts {
							account.ServeHTTP(w, r)
							return
						}
						tt.mood(w, r, func(w http.ResponseWriter) { account.ServeHTTP(w, r) })
					}), cfn.Event{RequestType: cfn.RequestCreate, ResourceType: kind, ResourceProperties: resource.properties})
					if err != nil || !resource.installed(t, account, data) {
						t.Errorf("after %s and the requests %v: %v, %v", took, asked, data, err)
					}
				})
			})
		}
	}
}

// CloudFormation has an answer before it stops waiting, and before Lambda ends the function, whatever
// AWS does meanwhile.
func TestServe_AnswersWithinTheTimesOfTheTemplate(t *testing.T) {
	content, err := os.ReadFile("../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(content, &template); err != nil {
		t.Fatal(err)
	}
	seconds := map[string]int{} // by type
	for name, r := range template.Resources {
		if _, ok := resources[r.Type]; ok || name == "InstallFunction" {
			var times struct {
				Timeout        int `yaml:"Timeout"`
				ServiceTimeout int `yaml:"ServiceTimeout"`
			}
			if err := r.Properties.Decode(&times); err != nil {
				t.Fatal(err)
			}
			seconds[r.Type] = max(times.Timeout, times.ServiceTimeout)
		}
	}
	if len(seconds) != len(resources)+1 {
		t.Fatalf("the template has %v", seconds)
	}
	const starts = 15 * time.Second // of the function, and its answer
	for kind, resource := range resources {
		for name, mood := range map[string]mood{"silent": silent, "throttling": refuses(http.StatusServiceUnavailable, "ThrottlingException"), "denied": refuses(http.StatusForbidden, "AccessDenied")} {
			for _, request := range []cfn.RequestType{cfn.RequestCreate, cfn.RequestUpdate, cfn.RequestDelete} {
				t.Run(kind+"/"+name+"/"+string(request), func(t *testing.T) {
					id := map[string]string{typeProgram: location, typeGroupUse: "sg-1"}[kind]
					synctest.Test(t, func(t *testing.T) {
						account := resource.account()
						_, took, err := install(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
							if kind == typeProgram && request == cfn.RequestUpdate && r.Method == http.MethodPut { // the removal is slow, too
								time.Sleep(answerLimit - time.Second)
								account.ServeHTTP(w, r)
								return
							}
							mood(w, r, nil)
						}), cfn.Event{RequestType: request, ResourceType: kind, PhysicalResourceID: id, ResourceProperties: resource.properties})
						for _, within := range []int{seconds[kind], seconds["AWS::Serverless::Function"]} {
							if limit := time.Duration(within) * time.Second; took+starts > limit {
								t.Errorf("%s, of %s: %v", took, limit, err)
							}
						}
						if name != "silent" && errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("the error does not say what AWS answered: %v", err)
						}
					})
				})
			}
		}
	}
}

// Patience ends a request, too: CloudFormation waits for the sum of what a resource waits for.
func TestPatiently_EndsWithItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, denied := time.Now(), &smithy.GenericAPIError{Code: "AccessDenied"}
		err := patiently(t.Context(), propagation, func(ctx context.Context) error {
			if time.Since(began) < propagation/2 {
				return denied
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(began); took != propagation || !errors.Is(err, denied) {
			t.Errorf("after %s: %v", took, err)
		}
	})
	if assumable+propagation >= longest {
		t.Errorf("the function gives up after %s, before both waits of the service-linked role, %s and %s, have ended", longest, assumable, propagation)
	}
}
