// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/target"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// secrets reads what a sink proves itself by, live: no Secret is in a cache.
type secrets struct {
	live client.Reader
	of   target.References
	// own is true for the Secrets of the forwarder's own namespace, which the chart names.
	own bool
}

// Read reads all that is named.
func (s *secrets) Read(ctx context.Context) (sink.Material, error) {
	var m sink.Material
	if err := s.roots(ctx, &m); err != nil {
		return m, err
	}
	for _, part := range []struct {
		at   target.Place
		fill func(*corev1.Secret, *sink.Material) error
	}{{s.of.ClientCertificate, certificate}, {s.of.Token, s.token}, {s.of.Login, s.login}, {s.of.Further, s.further}} {
		if part.at.Name == "" {
			continue
		}
		secret := &corev1.Secret{}
		if err := s.get(ctx, "Secret", part.at, secret); err != nil {
			return m, err
		}
		if err := part.fill(secret, &m); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (s *secrets) roots(ctx context.Context, m *sink.Material) error {
	if s.of.ServerCA.Name == "" {
		return nil
	}
	bundle := &corev1.ConfigMap{}
	if err := s.get(ctx, "ConfigMap", s.of.ServerCA, bundle); err != nil {
		return err
	}
	text, ok := bundle.Data[s.of.CAKey]
	if !ok {
		return missing("the ConfigMap %s has no key %s", s.of.ServerCA, s.of.CAKey)
	}
	m.Roots = []byte(text)
	return nil
}

func certificate(secret *corev1.Secret, m *sink.Material) (err error) {
	if m.Certificate, err = value(secret, corev1.TLSCertKey); err == nil {
		m.Key, err = value(secret, corev1.TLSPrivateKeyKey)
	}
	return err
}

// token reads a bearer token. A Secret of another namespace has to list that of the setting.
func (s *secrets) token(secret *corev1.Secret, m *sink.Material) error {
	const list = settingsv1alpha2.AnnotationAllowedNamespaces
	allowed := strings.Split(strings.ReplaceAll(secret.Annotations[list], " ", ""), ",")
	if s.of.Foreign != "" && !slices.Contains(allowed, s.of.Foreign) {
		return notGranted("the Secret %s does not list the namespace %s in its annotation %s", s.of.Token, s.of.Foreign, list)
	}
	token, err := value(secret, s.of.TokenKey)
	m.Token = sink.Secret(strings.TrimSpace(string(token)))
	return err
}

func (s *secrets) login(secret *corev1.Secret, m *sink.Material) error {
	user, err := value(secret, s.of.UserKey)
	if err != nil {
		return err
	}
	password, err := value(secret, s.of.PasswordKey)
	m.Username, m.Password = string(user), sink.Secret(password)
	return err
}

// further takes one key, or all of them.
func (s *secrets) further(secret *corev1.Secret, m *sink.Material) error {
	m.Further = map[string]sink.Secret{}
	if s.of.FurtherKey != "" {
		text, err := value(secret, s.of.FurtherKey)
		m.Further[s.of.FurtherKey] = sink.Secret(text)
		return err
	}
	for key, text := range secret.Data {
		m.Further[key] = sink.Secret(text)
	}
	return nil
}

func (s *secrets) get(ctx context.Context, kind string, at target.Place, into client.Object) error {
	err := s.live.Get(ctx, client.ObjectKey{Namespace: at.Namespace, Name: at.Name}, into)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return missing("the %s %s is not there", kind, at)
	case apierrors.IsForbidden(err) && s.own:
		return notGranted("the forwarder may not read the %s %s: name it in forwarder.secrets or forwarder.configMaps of the chart", kind, at)
	case apierrors.IsForbidden(err):
		return notGranted("the forwarder may not read the %s %s: bind a Role with get on it to the ServiceAccount scanyard-forwarder", kind, at)
	}
	return &sink.Error{Class: sink.Transport, Reason: sink.SecretMissing, Message: fmt.Sprintf("the %s %s cannot be read: %v", kind, at, err)}
}

func value(secret *corev1.Secret, key string) ([]byte, error) {
	content, ok := secret.Data[key]
	if !ok || len(content) == 0 {
		return nil, missing("the Secret %s/%s has no key %s", secret.Namespace, secret.Name, key)
	}
	return content, nil
}

func missing(format string, values ...any) error {
	return &sink.Error{Class: sink.Auth, Reason: sink.SecretMissing, Message: fmt.Sprintf(format, values...)}
}

func notGranted(format string, values ...any) error {
	return &sink.Error{Class: sink.Auth, Reason: sink.SecretNotGranted, Message: fmt.Sprintf(format, values...)}
}
