// Solve for Karpenter's own specifications: with DOVETAIL_SIMULATE set, Dovetail's planner decides instead of Karpenter's.
//
// bench/comparison/karpenter copies this file into Karpenter's package of the scheduler, where Karpenter's Solve has the
// name solveInKarpenter. What the planner is asked is what Karpenter's Solve would have seen: the pods, the nodes of its
// cluster state, and everything else as the API server has it. See docs/development/karpenter-specifications.md.

package scheduling

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"
	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	karpopts "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/pod"
)

type fields = map[string]any

// Labels that Karpenter's fake cloud gives to instance types, and the AWS labels in whose place they stand: the planner
// knows the labels of AWS, as Karpenter's specifications know those of their fake.
var awsLabels = map[string]string{
	"size":                             "karpenter.k8s.aws/instance-size",
	"special":                          "karpenter.k8s.aws/instance-gpu-name",
	"integer":                          "karpenter.k8s.aws/instance-cpu",
	"karpenter.test.sh/reservation-id": "karpenter.k8s.aws/capacity-reservation-id",
}

const awsGroup, awsClass = "karpenter.k8s.aws", "EC2NodeClass"

// Kinds that the planner reads as the API server has them.
var readKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "PersistentVolume"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
	{Group: "storage.k8s.io", Version: "v1", Kind: "CSINode"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

type planned struct {
	Machines []struct {
		NodePool      string                                    `json:"nodePool"`
		Pods          []string                                  `json:"pods"`
		InstanceTypes []string                                  `json:"instanceTypes"`
		Requirements  []v1.NodeSelectorRequirementWithMinValues `json:"requirements"`
		Requests      corev1.ResourceList                       `json:"requests"`
	} `json:"machines"`
	Existing []struct {
		Node string   `json:"node"`
		Pods []string `json:"pods"`
	} `json:"existing"`
	Unschedulable []struct {
		Pod    string `json:"pod"`
		Reason string `json:"reason"`
	} `json:"unschedulable"`
}

// Solve asks Dovetail's planner, or Karpenter's own if there is no address to ask.
func (s *Scheduler) Solve(ctx context.Context, pods []*corev1.Pod) (Results, error) {
	address := os.Getenv("DOVETAIL_SIMULATE")
	if address == "" {
		return s.solveInKarpenter(ctx, pods)
	}
	if ctx.Err() != nil {
		return Results{}, ctx.Err()
	}
	objects, err := s.objects(ctx, pods)
	if err != nil {
		return Results{}, err
	}
	plan, err := ask(ctx, address, fields{
		"objects":           objects,
		"preference-policy": lo.Ternary(s.preferencePolicy == PreferencePolicyIgnore, "Ignore", "Respect"),
		"min-values-policy": string(s.minValuesPolicy),
	})
	if err != nil {
		return Results{}, err
	}
	return s.results(ctx, pods, plan), nil
}

func ask(ctx context.Context, address string, question fields) (plan planned, err error) {
	if question["min-values-policy"] == "" {
		question["min-values-policy"] = string(karpopts.MinValuesPolicyStrict)
	}
	body, err := json.Marshal(translated(question, true))
	if err != nil {
		return plan, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return plan, err
	}
	request.Header.Set("X-Specification", strings.Join(strings.Fields(ginkgo.CurrentSpecReport().FullText()), " "))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return plan, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return plan, err
	}
	if response.StatusCode != http.StatusOK {
		return plan, fmt.Errorf("%s: %s", response.Status, text)
	}
	var answer any
	if err := json.Unmarshal(text, &answer); err != nil {
		return plan, err
	}
	back, err := json.Marshal(translated(answer, false))
	if err != nil {
		return plan, err
	}
	return plan, json.Unmarshal(back, &plan)
}

// What the planner reads.

func (s *Scheduler) objects(ctx context.Context, pods []*corev1.Pod) ([]any, error) {
	found := []any{}
	for _, kind := range readKinds {
		listed, err := s.list(ctx, kind)
		if err != nil {
			return nil, err
		}
		found = append(found, lo.ToAnySlice(listed)...)
	}
	nodes := func(ctx context.Context) ([]fields, error) { return s.nodes(ctx, s.moves(pods)) }
	for _, read := range []func(context.Context) ([]fields, error){s.daemonSets, nodes, s.nodePools, s.devices} {
		listed, err := read(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, lo.ToAnySlice(listed)...)
	}
	given, err := s.pods(ctx, pods)
	if err != nil {
		return nil, err
	}
	return append(append(found, lo.ToAnySlice(given)...), lo.ToAnySlice(s.types())...), nil
}

func (s *Scheduler) list(ctx context.Context, kind schema.GroupVersionKind) ([]fields, error) {
	listed := &unstructured.UnstructuredList{}
	listed.SetGroupVersionKind(kind)
	if err := s.kubeClient.List(ctx, listed); err != nil {
		return nil, err
	}
	return lo.Map(listed.Items, func(one unstructured.Unstructured, _ int) fields { return one.Object }), nil
}

// As JSON has it: the converter of the API machinery writes durations that may be nil as bytes.
func plain(from client.Object, version, kind string) fields {
	found := fields{}
	lo.Must0(json.Unmarshal(lo.Must(json.Marshal(from)), &found))
	found["apiVersion"], found["kind"] = version, kind
	return found
}

// The pods to schedule, without the nodes that they leave, the pods that stay on nodes, and daemon pods, which may ask for
// other amounts than their daemon set.
func (s *Scheduler) pods(ctx context.Context, pods []*corev1.Pod) ([]fields, error) {
	asked := sets.New[string]()
	found := []fields{}
	for _, one := range pods {
		asked.Insert(client.ObjectKeyFromObject(one).String())
		waiting := one.DeepCopy()
		waiting.Spec.NodeName, waiting.DeletionTimestamp = "", nil
		waiting.Status = corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
			},
			ResourceClaimStatuses: one.Status.ResourceClaimStatuses,
		}
		found = append(found, plain(waiting, "v1", "Pod"))
	}
	all := &corev1.PodList{}
	if err := s.kubeClient.List(ctx, all); err != nil {
		return nil, err
	}
	for _, one := range all.Items {
		if (one.Spec.NodeName != "" || pod.IsOwnedByDaemonSet(&one)) && !asked.Has(client.ObjectKeyFromObject(&one).String()) {
			found = append(found, plain(&one, "v1", "Pod"))
		}
	}
	return found, nil
}

// A node that reports no number of pods takes none in Karpenter; the planner takes it for a short way of writing.
func withPods(node fields) fields {
	allocatable, _, _ := unstructured.NestedMap(node, "status", "allocatable")
	if _, reported := allocatable["pods"]; !reported {
		lo.Must0(unstructured.SetNestedField(node, "0", "status", "allocatable", "pods"))
	}
	return node
}

// moves: do some of the pods run on nodes that stay unless they find another place? Nodes that changed a moment ago take
// none of these; asked about them, the planner keeps the others away as well.
func (s *Scheduler) moves(pods []*corev1.Pod) bool {
	return lo.SomeBy(pods, func(one *corev1.Pod) bool {
		return !pod.IsPending(one) && !s.deletingNodeNames.Has(one.Spec.NodeName)
	})
}

// The nodes and machines that Karpenter's Solve knows. Other nodes, which are about to go, count by their pods alone.
func (s *Scheduler) nodes(ctx context.Context, moves bool) ([]fields, error) {
	found, known := []fields{}, sets.New[string]()
	for _, one := range s.existingNodes {
		if one.Node != nil {
			known.Insert(one.Node.Name)
			node := one.Node.DeepCopy()
			node.Spec.Unschedulable = node.Spec.Unschedulable || (moves && one.isUnderConsolidateAfter)
			found = append(found, withPods(plain(node, "v1", "Node")))
		}
		if one.NodeClaim != nil {
			machine := one.NodeClaim.DeepCopy()
			machine.Spec.NodeClassRef = classOf(machine.Labels[v1.NodePoolLabelKey])
			found = append(found, plain(machine, "karpenter.sh/v1", "NodeClaim"))
		}
	}
	all, err := s.list(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		node := unstructured.Unstructured{Object: one}
		if known.Has(node.GetName()) {
			continue
		}
		lo.Must0(unstructured.SetNestedField(one, true, "spec", "unschedulable"))
		labels := node.GetLabels()
		delete(labels, v1.NodePoolLabelKey)
		node.SetLabels(labels)
		found = append(found, one)
	}
	return found, nil
}

// The pools that Karpenter's Solve was given, and those that it would not have been given as they are not ready.
func (s *Scheduler) nodePools(ctx context.Context) ([]fields, error) {
	all := &v1.NodePoolList{}
	if err := s.kubeClient.List(ctx, all); err != nil {
		return nil, err
	}
	found := []fields{}
	for _, one := range all.Items {
		_, given := s.remainingResources[one.Name]
		if ready := one.StatusConditions().Get("Ready"); !given && (ready == nil || !ready.IsFalse()) {
			continue
		}
		one.Spec.Template.Spec.NodeClassRef = classOf(one.Name)
		own := lo.Keys(s.typesOf(one.Name))
		if len(own) != len(s.allTypes()) {
			one.Spec.Template.Spec.Requirements = append(one.Spec.Template.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{
				Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: own,
			})
		}
		found = append(found, plain(&one, "karpenter.sh/v1", "NodePool"), s.nodeClass(one.Name))
	}
	return found, nil
}

// Each pool has a class of its name, which selects the reservations that the fake cloud offers to that pool.
func classOf(pool string) *v1.NodeClassReference {
	return &v1.NodeClassReference{Group: awsGroup, Kind: awsClass, Name: lo.CoalesceOrEmpty(pool, "none")}
}

func (s *Scheduler) nodeClass(pool string) fields {
	ids := sets.New[string]()
	for _, kind := range s.instanceTypes[pool] {
		for _, one := range kind.Offerings {
			if isReservation(one) {
				ids.Insert(reservation(one.ReservationID()))
			}
		}
	}
	tagged := []any{fields{"tags": fields{"of": "karpenter"}}}
	return fields{
		"apiVersion": awsGroup + "/v1", "kind": awsClass, "metadata": fields{"name": pool},
		"spec": fields{
			"role": "nodes", "amiSelectorTerms": []any{fields{"alias": "al2023@latest"}},
			"subnetSelectorTerms": tagged, "securityGroupSelectorTerms": tagged,
		},
		"status": fields{"capacityReservations": lo.Map(sets.List(ids), func(id string, _ int) fields { return fields{"id": id} })},
	}
}

func (s *Scheduler) daemonSets(ctx context.Context) ([]fields, error) {
	return s.list(ctx, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"})
}

// The types of a pool by name. Types of the same name, which specifications have and AWS has not, get numbers.
func (s *Scheduler) typesOf(pool string) map[string]*cloudprovider.InstanceType {
	found := map[string]*cloudprovider.InstanceType{}
	for _, kind := range s.instanceTypes[pool] {
		name := kind.Name
		for number := 2; found[name] != nil; number++ {
			name = fmt.Sprintf("%s.number-%d", kind.Name, number)
		}
		found[name] = kind
	}
	return found
}

// The types of all pools. A type has one description here, with the reservations of all pools.
func (s *Scheduler) allTypes() map[string]*cloudprovider.InstanceType {
	found := map[string]*cloudprovider.InstanceType{}
	for pool := range s.instanceTypes {
		for name, kind := range s.typesOf(pool) {
			known, isKnown := found[name]
			if !isKnown || len(kind.Offerings) > len(known.Offerings) {
				found[name] = kind
			}
		}
	}
	return found
}

// What all pools are offered of a type, each reservation once.
func (s *Scheduler) offerings(name string) []fields {
	found := map[string]fields{}
	for pool := range s.instanceTypes {
		if kind, isKnown := s.typesOf(pool)[name]; isKnown {
			for _, one := range kind.Offerings {
				found[fmt.Sprint(one.Zone(), one.CapacityType(), one.ReservationID())] = s.offering(one)
			}
		}
	}
	return lo.Values(found)
}

func (s *Scheduler) types() []fields {
	return lo.MapToSlice(s.allTypes(), func(name string, kind *cloudprovider.InstanceType) fields {
		labels := fields{}
		for key, one := range kind.Requirements {
			if one.Operator() == corev1.NodeSelectorOpIn && key != corev1.LabelTopologyZone && key != v1.CapacityTypeLabelKey &&
				key != cloudprovider.ReservationIDLabel {
				labels[key] = one.Values()
			}
		}
		labels[corev1.LabelInstanceTypeStable] = []string{name}
		return fields{
			"apiVersion": "dovetail.sh/v1alpha1", "kind": "InstanceType", "metadata": fields{"name": name},
			"spec": fields{
				"labels": labels, "capacity": kind.Capacity, "overhead": kind.Overhead.Total(),
				"offerings": s.offerings(name), "volumeLimits": kind.VolumeAttachmentLimits,
			},
		}
	})
}

// With the places that the caller expects a machine to give back.
func (s *Scheduler) offering(one *cloudprovider.Offering) fields {
	found := fields{"zone": one.Zone(), "capacityType": one.CapacityType(), "price": one.Price, "available": one.Available}
	if isReservation(one) {
		found["reservationID"], found["capacity"] = reservation(one.ReservationID()), one.ReservationCapacity+s.creditReservationCapacity[one.ReservationID()]
	}
	return found
}

func isReservation(one *cloudprovider.Offering) bool {
	return one.CapacityType() == v1.CapacityTypeReserved && one.ReservationID() != ""
}

// The planner reads ids as AWS writes them, and no longer ones.
const longestID = 61

var longIDs sync.Map

func reservation(id string) string {
	text := hex.EncodeToString([]byte(id))
	if len(text) <= longestID {
		return "cr-" + text
	}
	hash := sha256.Sum256([]byte(id))
	short := "cr-" + hex.EncodeToString(hash[:])[:longestID]
	longIDs.Store(short, id)
	return short
}

func specified(id string) string {
	if long, isLong := longIDs.Load(id); isLong {
		return long.(string)
	}
	if text, err := hex.DecodeString(strings.TrimPrefix(id, "cr-")); err == nil && strings.HasPrefix(id, "cr-") {
		return string(text)
	}
	return id
}

// translated is the value with the labels of the other side: those of AWS, or those of Karpenter's specifications.
func translated(value any, toAWS bool) any {
	text := lo.Must(json.Marshal(value))
	var read any
	lo.Must0(json.Unmarshal(text, &read))
	return walk(read, toAWS)
}

func walk(value any, toAWS bool) any {
	switch one := value.(type) {
	case []any:
		return lo.Map(one, func(each any, _ int) any { return walk(each, toAWS) })
	case fields:
		found := fields{}
		for key, each := range one {
			if text, isText := each.(string); isText && (key == "key" || key == "topologyKey") {
				each = label(text, toAWS)
			}
			found[label(key, toAWS)] = walk(each, toAWS)
		}
		return withIds(found, toAWS)
	}
	return value
}

func label(key string, toAWS bool) string {
	if toAWS {
		return lo.ValueOr(awsLabels, key, key)
	}
	for fake, aws := range awsLabels {
		if aws == key {
			return fake
		}
	}
	return key
}

// withIds changes the ids of reservations in a requirement or in labels.
func withIds(found fields, toAWS bool) fields {
	change := lo.Ternary(toAWS, reservation, specified)
	if id, isText := found[label(cloudprovider.ReservationIDLabel, toAWS)].(string); isText {
		found[label(cloudprovider.ReservationIDLabel, toAWS)] = change(id)
	}
	if values, isList := found["values"].([]any); isList && found["key"] == label(cloudprovider.ReservationIDLabel, toAWS) {
		found["values"] = lo.Map(values, func(id any, _ int) any { return change(id.(string)) })
	}
	return found
}

// What Karpenter reads of the plan.

func (s *Scheduler) results(ctx context.Context, pods []*corev1.Pod, plan planned) Results {
	byName := lo.SliceToMap(pods, func(one *corev1.Pod) (string, *corev1.Pod) {
		return client.ObjectKeyFromObject(one).String(), one
	})
	named := func(names []string) []*corev1.Pod {
		return lo.FilterMap(names, func(name string, _ int) (*corev1.Pod, bool) {
			found, known := byName[name]
			return found, known
		})
	}
	results := Results{ExistingNodes: s.existingNodes, PodErrors: map[*corev1.Pod]error{}}
	for _, machine := range plan.Machines {
		found := s.machine(machine.NodePool, machine.InstanceTypes, machine.Requirements)
		found.Pods = named(machine.Pods)
		found.Spec.Resources.Requests = machine.Requests
		results.NewNodeClaims = append(results.NewNodeClaims, found)
	}
	s.newNodeClaims = results.NewNodeClaims
	for _, one := range plan.Existing {
		for _, node := range s.existingNodes {
			if node.Name() == one.Node || (node.NodeClaim != nil && node.NodeClaim.Name == one.Node) {
				node.Pods = named(one.Pods)
			}
		}
	}
	for _, one := range plan.Unschedulable {
		if found, known := byName[one.Pod]; known {
			results.PodErrors[found] = s.reason(ctx, found, one.Reason)
		}
	}
	s.allocate(ctx, &results)
	return results
}

func (s *Scheduler) machine(pool string, types []string, requirements []v1.NodeSelectorRequirementWithMinValues) *NodeClaim {
	template := lo.FindOrElse(s.nodeClaimTemplates, nil, func(one *NodeClaimTemplate) bool { return one.NodePoolName == pool })
	if template == nil {
		panic("a machine of a pool that Karpenter cannot use: " + pool)
	}
	found := &NodeClaim{NodeClaimTemplate: *template}
	own := s.typesOf(pool)
	for index, one := range requirements {
		if one.Key == corev1.LabelInstanceTypeStable {
			requirements[index].Values = lo.Uniq(lo.Map(one.Values, func(name string, _ int) string { return own[name].Name }))
		}
	}
	found.Requirements = scheduling.NewNodeSelectorRequirementsWithMinValues(requirements...)
	found.InstanceTypeOptions = lo.Map(types, func(name string, _ int) *cloudprovider.InstanceType { return own[name] })
	relaxed := lo.SomeBy(requirements, func(one v1.NodeSelectorRequirementWithMinValues) bool {
		asked := template.Requirements.Get(one.Key).MinValues()
		return asked != nil && lo.FromPtr(one.MinValues) < *asked
	})
	found.Annotations = lo.Assign(template.Annotations, map[string]string{
		v1.NodeClaimMinValuesRelaxedAnnotationKey: fmt.Sprint(relaxed),
	})
	return found
}

func (s *Scheduler) reason(ctx context.Context, one *corev1.Pod, text string) error {
	isStrict := s.reservedOfferingMode == ReservedOfferingModeStrict
	if isStrict && strings.Contains(text, "compatible reserved offerings are available, but could not be reserved") {
		return NewReservedOfferingError(fmt.Errorf("%s", text))
	}
	if pod.HasDRARequirements(one) && karpopts.FromContext(ctx).IgnoreDRARequests {
		return NewDRAError(fmt.Errorf("%s", text))
	}
	return fmt.Errorf("%s", text)
}
