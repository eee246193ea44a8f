// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// token is where a next page begins. Clients may change it as they like: it bounds nothing, and its values are
// parameters of statements.
type token struct {
	Question string `json:"q"` // hash of the question and the scope
	Now      int64  `json:"n"` // seconds since 1970, that since counts back from
	After    []any  `json:"a"` // values of the order's keys in the last row: texts and numbers
}

// maxToken bounds the text of a token. Texts in it are those of the dictionary.
const maxToken = 16 << 10

var errToken = errors.New("must be the token of an earlier answer to the same question in the same scope")

// hashOf is the same for all pages of an answer, and another one for each question and scope.
func hashOf(spec *reportsv1.ClusterFindingQuerySpec, scope Scope) (string, error) {
	whole := spec.DeepCopy()
	whole.Continue, whole.Limit = "", 0
	text, err := json.Marshal(struct {
		Scope Scope
		Spec  *reportsv1.ClusterFindingQuerySpec
	}{scope, whole})
	if err != nil {
		return "", fmt.Errorf("encode the question: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12]), nil
}

// KeyOf is one text for all questions that have the same answer at the same time: what is asked, of which page, in which scope.
func KeyOf(input *Input) (string, error) {
	text, err := json.Marshal(struct {
		Scope Scope
		Spec  *reportsv1.ClusterFindingQuerySpec
	}{input.Scope, &input.Spec})
	if err != nil {
		return "", fmt.Errorf("encode the question: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func (t token) encode() (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode the token of the next page: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// decodeToken reads the token of a question, and gives its values the types that statements take.
func decodeToken(text, question string) (token, error) {
	var t token
	if len(text) > maxToken {
		return t, errToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, errToken
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&t); err != nil || t.Question != question || t.Now < 0 || t.Now > maxTime {
		return t, errToken
	}
	for i, value := range t.After {
		switch value := value.(type) {
		case string:
		case json.Number:
			if t.After[i], err = numberIn(value); err != nil {
				return t, errToken
			}
		default:
			return t, errToken
		}
	}
	return t, nil
}

func numberIn(number json.Number) (any, error) {
	if whole, err := number.Int64(); err == nil {
		return whole, nil
	}
	return number.Float64()
}

// maxTime is the end of the year 9999.
var maxTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
