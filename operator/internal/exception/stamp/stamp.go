// SPDX-License-Identifier: Apache-2.0

// Package stamp says who made an exception and who changed it last, in a way that no client can forge.
//
//	admission ──► Stamp + subject ──► Seal ──► annotation ──► Open ──► status of the exception
//
// What it decides:
//
//   - The API server drops the status of an object that is created, so that admission cannot write status. It writes an
//     annotation, from which the operator takes status.
//   - The annotation is sealed with a key that only the operator's replicas have. The seal covers the kind, the namespace, the
//     name and the spec: a stamp that somebody writes, or copies from another exception, is worth nothing. So it
//     does not matter what was stored while no admission was there.
//   - A spec that was changed while no admission was there has a stamp that does not fit: who changed it is then not known.
package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Annotation holds the stamp of an exception.
const Annotation = "settings.scanyard.io/made-by"

// purpose keeps the key of seals apart from whatever else is made of the same secret.
const purpose = "scanyard: stamps of exceptions"

// Stamp says who made an exception, and who changed its spec last.
type Stamp struct {
	// CreatedBy is the user that the API server saw; empty where no admission was there.
	CreatedBy string `json:"createdBy,omitempty"`
	ChangedBy string `json:"changedBy,omitempty"`
	// ChangedAt is in whole seconds.
	ChangedAt time.Time `json:"changedAt,omitzero"`
}

// IsEmpty says that nothing is known.
func (s *Stamp) IsEmpty() bool { return *s == Stamp{} }

// Subject is what a stamp is about.
type Subject struct {
	Kind, Namespace string
	// Name is metadata.generateName where that is set: admission comes before the API server makes up the name.
	Name string
	// Spec is the spec as JSON, in one form for all who ask.
	Spec []byte
}

// sealed is what stands in the annotation.
type sealed struct {
	Stamp
	Seal string `json:"seal"`
}

// Sealer makes stamps and knows its own.
type Sealer struct{ key []byte }

// NewSealer takes a secret that all replicas have.
func NewSealer(secret []byte) *Sealer {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(purpose)) // a hash never fails
	return &Sealer{mac.Sum(nil)}
}

// Seal returns the annotation of a stamp.
func (s *Sealer) Seal(subject *Subject, stamp Stamp) (string, error) {
	seal, err := s.seal(subject, stamp)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(sealed{stamp, seal})
	if err != nil {
		return "", fmt.Errorf("write the stamp: %w", err)
	}
	return string(text), nil
}

// ErrNotOurs says that an annotation is not a stamp of this operator's for this exception.
var ErrNotOurs = errors.New("the stamp was not made for this exception")

// Open returns the stamp of an annotation.
func (s *Sealer) Open(subject *Subject, annotation string) (Stamp, error) {
	if s == nil {
		return Stamp{}, ErrNotOurs
	}
	var read sealed
	if err := json.Unmarshal([]byte(annotation), &read); err != nil {
		return Stamp{}, fmt.Errorf("%w: %w", ErrNotOurs, err)
	}
	want, err := s.seal(subject, read.Stamp)
	if err != nil {
		return Stamp{}, err
	}
	if !hmac.Equal([]byte(want), []byte(read.Seal)) {
		return Stamp{}, ErrNotOurs
	}
	return read.Stamp, nil
}

func (s *Sealer) seal(subject *Subject, stamp Stamp) (string, error) {
	text, err := json.Marshal(struct {
		Subject *Subject
		Stamp   Stamp
	}{subject, stamp})
	if err != nil {
		return "", fmt.Errorf("seal the stamp: %w", err)
	}
	mac := hmac.New(sha256.New, s.key)
	_, _ = mac.Write(text) // a hash never fails
	return hex.EncodeToString(mac.Sum(nil)), nil
}
