// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"strings"
	"testing"
)

// TestTemplatesReachWhatTheyReachInSecureCodeBox renders every name that its configuration and its arguments have.
func TestTemplatesReachWhatTheyReachInSecureCodeBox(t *testing.T) {
	const digest = "163482fed1f8e7c8558cc476a512b13768a8d2f7a04b8aab407ab02987c42382"
	entry := map[string]string{
		".Name": "trivy", ".ScanType": "trivy-image", ".RepeatInterval": "168h0m0s", ".RepeatInterval.Hours": "168",
		".Annotations": "map[a:b]", ".Annotations.a": "b", ".Labels.c": "d", "(index .Parameters 0)": "first",
		"(index .Volumes 0).Name": "cache", "(index .VolumeMounts 0).MountPath": "/cache", ".HookSelector.MatchLabels": "map[]",
		"(index .HookSelector.MatchExpressions)": "[]", "(index .Env 0).Name": "MODE",
	}
	names := map[string]string{
		".Config.Aws.QueueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/q", ".Config.Aws.Region": "eu-central-1",
		".Config.Kubernetes.Namespace": "scans", "(len .Config.Kubernetes.ScanConfigs)": "1",
		".Target.Id": "arn:aws:ecs:eu-central-1:123456789012:container/shop/0/1", ".Target.Image.Digest": "sha256:" + digest,
		".Image.Id": "docker.io/library/nginx@sha256:" + digest, ".Image.Name": "nginx:1.27", ".Image.Digest": "sha256:" + digest,
		".Image.Version": "1.27", ".Image.Registry": "docker.io", ".Image.Repository": "docker.io/library/nginx",
		".Image.ShortName": "library/nginx", ".ImageID": "docker.io/library/nginx@sha256:" + digest,
		// Our own names stay.
		".Config.AWS.QueueURL": "https://sqs.eu-central-1.amazonaws.com/123456789012/q",
	}
	for name, want := range entry {
		names["(with .ScanConfig) "+name] = want
		names["(with index .Config.Kubernetes.ScanConfigs 0) "+name] = want
	}
	for name, want := range names {
		text := "{{ " + name + " }}"
		if with, inner, ok := strings.Cut(name, ") "); ok && strings.HasPrefix(name, "(with ") {
			text = "{{ " + strings.TrimPrefix(with, "(") + " }}{{ " + inner + " }}{{ end }}"
		}
		config := strings.NewReplacer("TEXT", text).Replace(`
aws: {queueUrl: "https://sqs.eu-central-1.amazonaws.com/123456789012/q", region: eu-central-1}
kubernetes:
  namespace: scans
  scanConfigs:
  - name: trivy
    scanType: trivy-image
    repeatInterval: 168h
    annotations: {a: b}
    labels: {c: d}
    parameters: [first, '>TEXT<']
    volumes: [{name: cache, emptyDir: {}}]
    volumeMounts: [{name: cache, mountPath: /cache}]
    env: [{name: MODE, value: x}]
`)
		s, err := Load("config.yaml", []byte(config), func(string) string { return "" }, "own")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		args := s.sample()
		args.ScanConfig = s.arguments(&s.Kubernetes.ScanConfigs[0], args.Target).ScanConfig
		rendered, err := s.templates[0].Render(args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := rendered.Spec.ScanSpec.Parameters[1]; got != ">"+want+"<" {
			t.Errorf("%s is %s, want >%s<", name, got, want)
		}
	}
}
