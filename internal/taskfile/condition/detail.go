package condition

import (
	"encoding/base64"
	"net"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// Detail says of an element what its name does not, so that people can be told what
// changed. It holds no values of keys.
type Detail struct {
	Group   string // the service of an instance, the kind of a document; of others, what they are in the plural, such as "keys"
	ID      string // of an instance: people call it by this rather than by its name
	Address string // of an instance, with its port

	attributes string // a short digest of each of digested, encoded; of a document, of each field by its name
}

// String encodes the detail for ParseDetail.
func (d Detail) String() string {
	var text []byte
	for _, field := range []string{d.Group, d.ID, d.Address} {
		text = append(appendField(text, field), '\t')
	}
	return strings.TrimRight(string(text)+d.attributes, "\t")
}

// appendField appends a text without tabs, which separate the fields.
func appendField(text []byte, field string) []byte {
	for i := range len(field) {
		if field[i] == '\t' {
			text = append(text, ' ')
		} else {
			text = append(text, field[i])
		}
	}
	return text
}

// ParseDetail reads what String returned. Of an element without one, the detail is
// zero.
func ParseDetail(text string) Detail {
	fields := append(strings.Split(text, "\t"), "", "", "")
	return Detail{fields[0], fields[1], fields[2], fields[3]}
}

// Differs names the attributes of an instance, or the fields of a document, that differ
// from an earlier detail. A difference is missed once in 65,536 times.
func (d Detail) Differs(before Detail) []string {
	if strings.Contains(d.attributes, "=") {
		return differingFields(d.attributes, before.attributes)
	}
	var names []string
	address, port := endpoint(d.Address)
	addressBefore, portBefore := endpoint(before.Address)
	if address != addressBefore {
		names = append(names, "address")
	}
	if port != portBefore {
		names = append(names, "port")
	}
	now, errNow := base64.RawStdEncoding.DecodeString(d.attributes)
	was, errWas := base64.RawStdEncoding.DecodeString(before.attributes)
	if errNow != nil || errWas != nil || len(now) != 2*len(digested) || len(was) != len(now) {
		return names // the others are not known: one detail was written by another version
	}
	for i, n := range digested {
		if now[2*i] != was[2*i] || now[2*i+1] != was[2*i+1] {
			names = append(names, serviceAttributes[n].Name)
		}
	}
	return names
}

// endpoint splits an address with a port, if it has one.
func endpoint(text string) (address, port string) {
	address, port, err := net.SplitHostPort(text)
	if err != nil {
		return text, ""
	}
	return address, port
}

// digested are the indexes of the attributes that may differ between two instances of
// one name, except address and port.
var digested = func() (indexes []int) {
	for i, a := range serviceAttributes {
		// The first four are the parts of the name; the last one is in no element.
		if !slices.Contains([]string{"id", "node", "namespace", "node_datacenter", "address", "port", "cts_user_defined_meta"}, a.Name) {
			indexes = append(indexes, i)
		}
	}
	return indexes
}()

// detail is the detail of an instance, encoded. It is made for thousands of instances.
func (s *Service) detail() string {
	text := make([]byte, 0, 128)
	for _, field := range []string{s.Name, s.ID, s.endpoint()} {
		text = append(appendField(text, field), '\t')
	}
	var (
		sums [64]byte
		f    tfvars.Field
	)
	for n, i := range digested {
		f = serviceAttributes[i].Field
		serviceAttributes[i].fill(&f, s)
		sum := shortSum(&f)
		sums[2*n], sums[2*n+1] = byte(sum), byte(sum>>8)
	}
	return string(base64.RawStdEncoding.AppendEncode(text, sums[:2*len(digested)]))
}

// shortSum is a digest of a value: FNV-1a, folded. It only finds differences.
func shortSum(f *tfvars.Field) uint16 {
	sum := add(fnvBasis, f.Text)
	for _, text := range f.List {
		sum = add(sum, text)
	}
	for key, value := range f.Table {
		sum += add(add(fnvBasis, key), value) // in any order
	}
	return uint16(sum ^ sum>>16)
}

const (
	fnvBasis uint32 = 2166136261
	fnvPrime uint32 = 16777619
)

func add(sum uint32, text string) uint32 {
	for i := range len(text) {
		sum = (sum ^ uint32(text[i])) * fnvPrime
	}
	return (sum ^ 0xff) * fnvPrime // the end of the text: no UTF-8 text has this byte
}
