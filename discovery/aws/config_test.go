// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"strings"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	const queue = "https://sqs.eu-west-3.amazonaws.com/1/q"
	scans := "\nkubernetes: {scanConfigs: [{name: trivy, scanType: trivy-image, repeatInterval: 168h}]}\n"
	for name, c := range map[string]struct {
		file    string
		env     map[string]string
		own     string
		refused []string
		check   func(*Settings) bool
	}{
		"Defaults": {file: "aws: {queueUrl: " + queue + "}" + scans, own: "mine", check: func(s *Settings) bool {
			return s.AWS.Region == "eu-west-3" && s.Kubernetes.Namespace == "mine" && s.AWS.MaxNumberOfMessages == 1 &&
				s.AWS.VisibilityTimeout.Duration == 20*time.Second && !s.AWS.Sync.Enabled
		}},
		"EnvironmentWins": {
			file: "aws: {queueUrl: https://else.example, region: us-east-1}" + scans, own: "mine",
			env:   map[string]string{EnvQueueURL: queue, EnvRegion: "eu-west-1"},
			check: func(s *Settings) bool { return s.AWS.QueueURL == queue && s.AWS.Region == "eu-west-1" },
		},
		"JSONToo":        {file: `{"aws":{"queueUrl":"` + queue + `","region":"r"},"kubernetes":{"namespace":"n","scanConfigs":[{"name":"a","scanType":"b","repeatInterval":"1h"}]}}`, check: func(s *Settings) bool { return s.AWS.Region == "r" }},
		"NoQueue":        {file: scans, own: "mine", refused: []string{"aws.queueUrl", EnvQueueURL}},
		"NoURL":          {file: "aws: {queueUrl: my-queue}" + scans, own: "mine", refused: []string{"f.yaml:1: aws.queueUrl", "https://sqs."}},
		"NoNamespace":    {file: "aws: {queueUrl: " + queue + "}" + scans, refused: []string{"kubernetes.namespace"}},
		"BadNamespace":   {file: "aws: {queueUrl: " + queue + "}\nkubernetes:\n  namespace: A_B\n  scanConfigs: [{name: a, scanType: b, repeatInterval: 1h}]", refused: []string{"f.yaml:3: kubernetes.namespace"}},
		"NoScanConfigs":  {file: "aws: {queueUrl: " + queue + "}", own: "mine", refused: []string{"kubernetes.scanConfigs"}},
		"UnknownField":   {file: "aws: {queueURL: " + queue + "}" + scans, own: "mine", refused: []string{"f.yaml:1: aws.queueURL"}},
		"UnknownName":    {file: "aws: {queueUrl: " + queue + "}\nkubernetes:\n  scanConfigs:\n  - {name: a, scanType: b, repeatInterval: 1h, parameters: [\"{{ .Pod.Name }}\"]}", own: "mine", refused: []string{"f.yaml:4: kubernetes.scanConfigs[0].parameters[0]", "Pod"}},
		"SameName":       {file: "aws: {queueUrl: " + queue + "}\nkubernetes:\n  scanConfigs:\n  - {name: a, scanType: b, repeatInterval: 1h}\n  - {name: a, scanType: b, repeatInterval: 1h}", own: "mine", refused: []string{"f.yaml:5: kubernetes.scanConfigs[1].name"}},
		"Bounds":         {file: "aws: {queueUrl: " + queue + ", maxNumberOfMessages: 11, visibilityTimeout: 1s, waitTime: 21s, maxReceives: -1}" + scans, own: "mine", refused: []string{"maxNumberOfMessages", "visibilityTimeout", "waitTime", "maxReceives"}},
		"ClusterByName":  {file: "aws: {queueUrl: " + queue + ", sync: {enabled: true, clusters: [shop]}}" + scans, own: "mine", refused: []string{"aws.sync.clusters[0]", "arn:aws:ecs:"}},
		"ResyncTooOften": {file: "aws: {queueUrl: " + queue + "}\nkubernetes: {resyncInterval: 1s, scanConfigs: [{name: a, scanType: b, repeatInterval: 1h}]}", own: "mine", refused: []string{"kubernetes.resyncInterval"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Load("f.yaml", []byte(c.file), func(name string) string { return c.env[name] }, c.own)
			if c.check != nil {
				if err != nil || !c.check(s) {
					t.Fatalf("%+v %v", s, err)
				}
				return
			}
			if err == nil {
				t.Fatal("is accepted")
			}
			for _, word := range c.refused {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("no word of %q in: %v", word, err)
				}
			}
		})
	}
}
