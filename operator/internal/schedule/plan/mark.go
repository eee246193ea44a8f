// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// contractDomain is part of the keys of the labels and annotations that belong to the
// wire contract.
const contractDomain = "securecodebox.io/"

const (
	markVersion  = "v1"
	noDigest     = "none"
	noRun        = "never"
	digestDigits = 16
)

// mark is the content of status.scanTypeHash: it describes the last run. A hash that another operator
// wrote is not a mark.
// wrote is none.
type mark struct {
	// digest is the digest of the ScanType; "" if there was none.
	digest string
	// lastRun is the value to which status.lastScheduleTime was set.
	lastRun time.Time
	// never says that no run was started yet, and that the status had no time; lastRun is the creation then.
	never bool
}

func (m mark) String() string {
	digest := m.digest
	switch {
	case m.never:
		digest = noRun
	case digest == "":
		digest = noDigest
	}
	return fmt.Sprintf("%s-%s-%d", markVersion, digest, m.lastRun.Unix())
}

// parseMark reads a mark of this version.
func parseMark(text string) (mark, bool) {
	parts := strings.Split(text, "-")
	if len(parts) != 3 || parts[0] != markVersion || parts[1] == "" {
		return mark{}, false
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return mark{}, false
	}
	m := mark{digest: parts[1], lastRun: time.Unix(seconds, 0)}
	switch m.digest {
	case noDigest:
		m.digest = ""
	case noRun:
		m.digest, m.never = "", true
	}
	return m, true
}

// DigestOf returns a digest of everything in a ScanType that changes its Scans: its spec, and the labels
// and annotations of the contract. New fields in the types of Kubernetes do not change the digest:
// absent, null and empty fields are equal.
func DigestOf(kind string, meta *metav1.ObjectMeta, spec *executionv1.ScanTypeSpec) (string, error) {
	raw, err := json.Marshal(map[string]any{
		"kind": kind, "name": meta.Name, "namespace": meta.Namespace, "spec": spec,
		"labels": ofContract(meta.Labels), "annotations": ofContract(meta.Annotations),
	})
	if err != nil {
		return "", fmt.Errorf("encode %s %s: %w", kind, meta.Name, err)
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "", fmt.Errorf("decode %s %s: %w", kind, meta.Name, err)
	}
	raw, err = json.Marshal(withoutEmpty(fields))
	if err != nil {
		return "", fmt.Errorf("encode %s %s: %w", kind, meta.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:digestDigits], nil
}

// withoutEmpty drops fields without a value from objects. Elements of lists stay, because their
// positions matter.
func withoutEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, field := range v {
			v[k] = withoutEmpty(field)
		}
		maps.DeleteFunc(v, func(_ string, field any) bool { return isEmpty(field) })
		return v
	case []any:
		for i := range v {
			v[i] = withoutEmpty(v[i])
		}
		return v
	default:
		return v
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

// ofContract returns the entries whose keys belong to the wire contract.
func ofContract(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		if strings.Contains(k, contractDomain) {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}
