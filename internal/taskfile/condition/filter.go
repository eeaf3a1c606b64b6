package condition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr/grammar"
)

// filterMatches evaluates a filter as Consul does for an element of /v1/health/service. The
// library that parses filters evaluates them in another way than Consul, which compares with
// each element of a list, such as the checks.
func filterMatches(filter string, raw json.RawMessage) (bool, error) {
	parsed, err := grammar.Parse("", []byte(filter), grammar.MaxExpressions(maxFilterSteps))
	if err != nil {
		return false, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var entry any
	if err := d.Decode(&entry); err != nil {
		return false, err
	}
	return matchesFilter(parsed, entry)
}

func matchesFilter(of, entry any) (bool, error) {
	switch e := of.(type) {
	case *grammar.UnaryExpression:
		is, err := matchesFilter(e.Operand, entry)
		return !is, err
	case *grammar.BinaryExpression:
		is, err := matchesFilter(e.Left, entry)
		if err != nil || is == (e.Operator == grammar.BinaryOpOr) {
			return is, err
		}
		return matchesFilter(e.Right, entry)
	case *grammar.MatchExpression:
		return matchesPath(e, e.Selector.Path, entry)
	}
	return false, fmt.Errorf("it has an expression (%T) that is not known", of)
}

// matchesPath compares what is at a path: of a list on the way, any element may match.
func matchesPath(e *grammar.MatchExpression, path []string, at any) (bool, error) {
	if len(path) == 0 {
		return matchesValue(e, at)
	}
	switch at := at.(type) {
	case []any:
		for _, element := range at {
			if is, err := matchesPath(e, path, element); is || err != nil {
				return is, err
			}
		}
		return false, nil
	case map[string]any:
		return matchesPath(e, path[1:], at[path[0]])
	}
	return matchesValue(e, nil) // what an entry leaves out is empty
}

// matchesValue compares one value with that of a filter.
func matchesValue(e *grammar.MatchExpression, value any) (bool, error) {
	raw := ""
	if e.Value != nil {
		raw = e.Value.Raw
	}
	switch e.Operator {
	case grammar.MatchEqual, grammar.MatchNotEqual:
		is := value == nil && slices.Contains([]string{"", "0", "false"}, raw) || value != nil && fmt.Sprint(value) == raw
		return is == (e.Operator == grammar.MatchEqual), nil
	case grammar.MatchIn, grammar.MatchContains, grammar.MatchNotIn, grammar.MatchNotContains:
		return holds(value, raw) == (e.Operator == grammar.MatchIn || e.Operator == grammar.MatchContains), nil
	case grammar.MatchIsEmpty, grammar.MatchIsNotEmpty:
		return size(value) == 0 == (e.Operator == grammar.MatchIsEmpty), nil
	case grammar.MatchMatches, grammar.MatchNotMatches:
		re, err := regexp.Compile(raw)
		if err != nil {
			return false, err
		}
		text, _ := value.(string)
		return re.MatchString(text) == (e.Operator == grammar.MatchMatches), nil
	}
	return false, fmt.Errorf("it has an operator (%s) that is not known", e.Operator)
}

// holds reports whether a list has an element, an object a key, or a text a part.
func holds(value any, raw string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return fmt.Sprint(element) == raw })
	case map[string]any:
		_, ok := v[raw]
		return ok
	case string:
		return strings.Contains(v, raw)
	}
	return false
}

func size(value any) int {
	switch v := value.(type) {
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case string:
		return len(v)
	}
	return 0
}
