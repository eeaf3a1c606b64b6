package dynamo_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

// only has DynamoDB answer the first n of the requested keys, and leave out the others.
func only(n int) dynamotest.Fault {
	type keys struct {
		ConsistentRead bool
		Keys           []json.RawMessage
	}
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		var in struct{ RequestItems map[string]keys }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		out, left := map[string]any{"Responses": map[string]any{}}, map[string]keys{}
		for table, requested := range in.RequestItems {
			left[table] = keys{requested.ConsistentRead, requested.Keys[n:]}
			in.RequestItems[table] = keys{requested.ConsistentRead, requested.Keys[:n]}
		}
		if n > 0 {
			body, _ := json.Marshal(in)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, r)
			if err := json.Unmarshal(answer.Body.Bytes(), &out); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		out["UnprocessedKeys"] = left
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(out)
	}
}

// DynamoDB leaves out keys of a partition that is over its limit, and those that make an answer too large.
func TestGetSeveral_KeysThatAreLeftOutAreRequestedAgain(t *testing.T) {
	t.Parallel()
	s, proxy, _ := behind(t)
	want := map[string]state.Record{}
	keys := []string{"task/0", "task/1", "task/2", "task/3", "task/none"}
	for _, key := range keys[:4] {
		want[key] = apply(t, s, state.Create(key, []byte(key)))[0]
	}
	proxy.Requests()
	proxy.Next("BatchGetItem", only(1), only(0), only(0), only(2))
	got, err := s.GetSeveral(t.Context(), keys)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if n := proxy.Requests()["BatchGetItem"]; n != 5 {
		t.Errorf("%d requests, want 5", n)
	}

	proxy.Next("BatchGetItem", dynamotest.Times(100, only(0))...)
	began := time.Now()
	_, err = s.GetSeveral(t.Context(), keys)
	says(t, err, true, "read 5 records, beginning with task/0", tableName, "left out")
	if n, took := proxy.Requests()["BatchGetItem"], time.Since(began); n != 7 || took < 300*time.Millisecond {
		t.Errorf("%d requests in %s, want 7 with waits between them", n, took)
	}
}
