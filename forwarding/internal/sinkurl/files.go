// SPDX-License-Identifier: Apache-2.0

package sinkurl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// maxSecretBytes bounds a file of secrets.
const maxSecretBytes = 1 << 20

// Files are files of secrets by the key that names them. They implement sink.Secrets.
type Files map[string]string

// Read reads all files as they are now.
func (f Files) Read(context.Context) (sink.Material, error) {
	content := make(map[string][]byte, len(f))
	for key, name := range f {
		data, err := readFile(name)
		if err != nil {
			return sink.Material{}, &sink.Error{Class: sink.Auth, Reason: sink.SecretMissing, Message: fmt.Sprintf("%s: %v", key, err)}
		}
		content[key] = data
	}
	text := func(key string) string { return string(bytes.TrimSpace(content[key])) }
	material := sink.Material{
		Roots: content["ca"], Certificate: content["cert"], Key: content["key"], Token: sink.Secret(text("tokenFile")),
		Username: text("usernameFile"), Password: sink.Secret(text("passwordFile")), Further: map[string]sink.Secret{},
	}
	for key, name := range map[string]string{"credentialsFile": "creds", "signingFile": "secret"} {
		if _, given := f[key]; given {
			material.Further[name] = sink.Secret(text(key))
		}
	}
	return material, nil
}

func readFile(name string) (data []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := file.Close(); err == nil {
			err = closing
		}
	}()
	data, err = io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	if err == nil && len(data) > maxSecretBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxSecretBytes)
	}
	return data, err
}
