// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
)

const (
	// copiers is how many transactions are written at a time, and perTransaction how many Scans one has: etcd takes 128 writes.
	copiers, perTransaction = 8, 25
	// labelCopied is on copies, so that the bench itself need not hold them.
	labelCopied = "bench.scanyard.io/copied"
	dialTimeout = 10 * time.Second
)

// copyEnded writes n copies of a Scan that has ended, with its Jobs, as if they had run. They are written into etcd: the API server takes
// milliseconds for each of the six writes of a Scan, and running them takes hours. Neither the operator nor Kubernetes' controllers work
// meanwhile, or they would run the copies.
func (b *run) copyEnded(ctx context.Context, name string, n int) error {
	from := &executionv1.Scan{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: namespace(0), Name: name}, from); err != nil {
		return fmt.Errorf("get the Scan to copy: %w", err)
	}
	var jobs batchv1.JobList
	if err := b.client.List(ctx, &jobs, client.InNamespace(from.Namespace)); err != nil {
		return fmt.Errorf("list the Jobs to copy: %w", err)
	}
	own := slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return !metav1.IsControlledBy(&j, from) })
	if len(own)+1 > 128/perTransaction {
		return fmt.Errorf("a Scan with %d Jobs does not fit into a transaction", len(own))
	}
	if err := b.cluster.StopComponent(ctx, localcluster.ControllerManager); err != nil {
		return err
	}
	etcd, err := b.etcd()
	if err != nil {
		return err
	}
	defer func() { _ = etcd.Close() }() // nothing is in flight
	stored, err := readStored(ctx, etcd, from, own)
	if err != nil {
		return err
	}
	if err := writeCopies(ctx, etcd, stored, n); err != nil {
		return fmt.Errorf("copy Scan %s: %w", name, err)
	}
	return b.cluster.StartComponent(ctx, localcluster.ControllerManager)
}

func (b *run) etcd() (*clientv3.Client, error) {
	s, err := localcluster.LoadState(localcluster.Layout(b.cluster.DataDir))
	if err != nil {
		return nil, err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://127.0.0.1:%d", s.Ports.Etcd)}, DialTimeout: dialTimeout})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return etcd, nil
}

// storedScan is a Scan that has ended, with its Jobs, as etcd holds them.
type storedScan struct {
	scan []byte
	jobs []*batchv1.Job
}

// The API server keeps Jobs as protobuf behind these keys, and custom resources as JSON.
const (
	scanKeys = "/registry/execution.securecodebox.io/scans/"
	jobKeys  = "/registry/jobs/"
)

func readStored(ctx context.Context, etcd *clientv3.Client, scan *executionv1.Scan, jobs []batchv1.Job) (*storedScan, error) {
	out := &storedScan{}
	var err error
	if out.scan, err = readKey(ctx, etcd, scanKeys+scan.Namespace+"/"+scan.Name); err != nil {
		return nil, err
	}
	for i := range jobs {
		raw, err := readKey(ctx, etcd, jobKeys+jobs[i].Namespace+"/"+jobs[i].Name)
		if err != nil {
			return nil, err
		}
		j := &batchv1.Job{}
		if _, _, err := storedJobs().Decode(raw, nil, j); err != nil {
			return nil, fmt.Errorf("read Job %s from etcd: %w", jobs[i].Name, err)
		}
		out.jobs = append(out.jobs, j)
	}
	return out, nil
}

func readKey(ctx context.Context, etcd *clientv3.Client, key string) ([]byte, error) {
	got, err := etcd.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(got.Kvs) == 0 {
		return nil, fmt.Errorf("etcd has no %s", key)
	}
	return got.Kvs[0].Value, nil
}

func storedJobs() *protobuf.Serializer {
	return protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)
}

// writeCopies writes the first n copies.
func writeCopies(ctx context.Context, etcd *clientv3.Client, s *storedScan, n int) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(copiers)
	for first := 0; first < n; first += perTransaction {
		g.Go(func() error {
			var writes []clientv3.Op
			for i := first; i < min(first+perTransaction, n); i++ {
				copied, err := s.copyOf(i)
				if err != nil {
					return err
				}
				for key, value := range copied {
					writes = append(writes, clientv3.OpPut(key, string(value)))
				}
			}
			_, err := etcd.Txn(inner).Then(writes...).Commit()
			return err
		})
	}
	return g.Wait()
}

// copyOf returns the i-th copy of a Scan with its Jobs: values by key.
func (s *storedScan) copyOf(i int) (map[string][]byte, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(s.scan, &u.Object); err != nil {
		return nil, fmt.Errorf("read the Scan from etcd: %w", err)
	}
	before := u.GetUID()
	u.SetNamespace(namespace(i))
	u.SetName(fmt.Sprintf("copied-%06d", i))
	u.SetUID(uuid.NewUUID())
	u.SetLabels(with(u.GetLabels(), labelCopied, "true"))
	scan, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{scanKeys + u.GetNamespace() + "/" + u.GetName(): scan}
	for k, from := range s.jobs {
		j := copyOfJob(from, before, u, fmt.Sprintf("%s-%d", u.GetName(), k))
		var text bytes.Buffer
		if err := storedJobs().Encode(j, &text); err != nil {
			return nil, fmt.Errorf("encode Job %s: %w", j.Name, err)
		}
		out[jobKeys+j.Namespace+"/"+j.Name] = text.Bytes()
	}
	return out, nil
}

// copyOfJob returns a Job of the copy of a Scan: what names the Scan, or the Job itself, names the copy.
func copyOfJob(from *batchv1.Job, scan types.UID, of *unstructured.Unstructured, name string) *batchv1.Job {
	j := from.DeepCopy()
	j.TypeMeta = metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"}
	j.Namespace, j.Name, j.UID = of.GetNamespace(), name, uuid.NewUUID()
	for i := range j.OwnerReferences {
		if owner := &j.OwnerReferences[i]; owner.UID == scan {
			owner.Name, owner.UID = of.GetName(), of.GetUID()
		}
	}
	renamed := strings.NewReplacer(string(from.UID), string(j.UID), string(scan), string(of.GetUID()), from.Name, j.Name)
	relabel := func(labels map[string]string) map[string]string {
		out := maps.Clone(labels)
		for k, v := range out {
			out[k] = renamed.Replace(v)
		}
		return out
	}
	j.Labels = with(relabel(j.Labels), labelCopied, "true")
	j.Spec.Template.Labels = relabel(j.Spec.Template.Labels)
	if j.Spec.Selector != nil {
		j.Spec.Selector.MatchLabels = relabel(j.Spec.Selector.MatchLabels)
	}
	return j
}

// with returns labels with one more.
func with(labels map[string]string, key, value string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
