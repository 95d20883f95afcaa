{{/* Objects that every service has. All take a dict: root (the top scope), name (of the service), values (of the service). */}}

{{- define "dovetail.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
  {{- $annotations := dict }}
  {{- with get .root.Values.aws.roles .name }}
  {{- if eq $.root.Values.aws.credentials "irsa" }}
  {{- $annotations = dict "eks.amazonaws.com/role-arn" . }}
  {{- end }}
  {{- end }}
  {{- with mergeOverwrite $annotations ((.values.serviceAccount).annotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "dovetail.clusterRoleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: dovetail-{{ .name }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: dovetail-{{ .name }}
subjects:
  - kind: ServiceAccount
    name: dovetail-{{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "dovetail.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: dovetail-{{ .name }}
subjects:
  - kind: ServiceAccount
    name: dovetail-{{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Leader election. */}}
{{- define "dovetail.leaseRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [karpenter-leader-election-{{ .name }}]
    verbs: [get, update, watch]
{{- end }}

{{- define "dovetail.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "dovetail.selector" . | nindent 4 }}
  ports:
    - name: status
      port: 8080
      targetPort: status
{{- end }}

{{- define "dovetail.podDisruptionBudget" -}}
{{- if gt (int .values.replicas) 1 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "dovetail.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* Metadata of a pod. */}}
{{- define "dovetail.podMetadata" -}}
{{- $annotations := dict }}
{{- if .root.Values.releaseLabels }}
{{- $annotations = dict "checksum/settings" (include "dovetail.allSettings" .root | sha256sum) }}
{{- end }}
{{- with mergeOverwrite $annotations (deepCopy .root.Values.podAnnotations) (.values.podAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- with mergeOverwrite (deepCopy .root.Values.podLabels) (.values.podLabels | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "dovetail.selector" . | nindent 2 }}
{{- end }}

{{/* Where a pod runs, and as whom. */}}
{{- define "dovetail.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $priority := ternary .values.priorityClassName .root.Values.priorityClassName (hasKey .values "priorityClassName") }}
{{- with $priority }}
priorityClassName: {{ . }}
{{- end }}
{{- with mergeOverwrite (deepCopy .root.Values.nodeSelector) (.values.nodeSelector | default dict) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat .root.Values.tolerations (.values.tolerations | default list) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        # Never run on a node that Dovetail may remove.
        - matchExpressions:
            - key: karpenter.sh/provisioner-name
              operator: DoesNotExist
            - key: karpenter.sh/nodepool
              operator: DoesNotExist
{{ include "dovetail.podSecurity" . }}
{{- end }}

{{- define "dovetail.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "dovetail.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Environment of a service beyond the ConfigMap and its Secret. A name twice would be refused by a server-side apply: of
all services' extraEnv, a service's settings and its own extraEnv the last one that has the name counts. */}}
{{- define "dovetail.environment" -}}
{{- $own := .values.extraEnv | default list }}
{{- $names := dict }}
{{- range $own }}{{ $_ := set $names .name "own" }}{{ end }}
{{- $extra := list }}
{{- range .root.Values.extraEnv }}
{{- if not (or (hasKey $names .name) (hasKey ($.values.settings | default dict) .name)) }}{{ $extra = append $extra . }}{{ $_ := set $names .name "all" }}{{ end }}
{{- end }}
{{- if and (include "dovetail.seesRecords" .) (not (hasKey $names "RECORD_STORE")) }}
- name: RECORD_STORE
  value: {{ .root.Values.records.store }}
{{- end }}
{{- range $name, $value := .values.settings | default dict }}
{{- if not (hasKey $names $name) }}
- name: {{ $name }}
  value: {{ include "dovetail.settings" (dict "v" $value) | trim | trimPrefix "v: " }}
{{- end }}
{{- end }}
{{- with concat $extra $own }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dovetail.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: dovetail-{{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dovetail.labels" . | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  strategy:
    {{- toYaml .values.strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "dovetail.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "dovetail.podMetadata" . | trim | nindent 6 }}
    spec:
      serviceAccountName: dovetail-{{ .name }}
      # A service ends at most 25 s after SIGTERM.
      terminationGracePeriodSeconds: 30
      {{- include "dovetail.placement" . | trim | nindent 6 }}
      {{- with .values.topologySpread | default .root.Values.topologySpread }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- toYaml . | nindent 10 }}
          labelSelector:
            matchLabels:
              {{- include "dovetail.selector" $ | nindent 14 }}
        {{- end }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ include "dovetail.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [python, -m]
          args: [services.{{ .module | default .name }}]
          envFrom:
            - configMapRef:
                name: dovetail
            - secretRef:
                name: {{ include "dovetail.redisSecret" . }}
          {{- with include "dovetail.environment" . | trim }}
          env:
            {{- . | nindent 12 }}
          {{- end }}
          ports:
            - name: status
              containerPort: 8080
            - name: probes
              containerPort: 8081
          livenessProbe:
            httpGet:
              path: /healthz
              port: probes
            initialDelaySeconds: 20
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /readyz
              port: probes
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          {{- include "dovetail.containerSecurity" . | nindent 10 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- with include "dovetail.recordsMount" . }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with include "dovetail.redisCaMount" .root }}
            {{- . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 64Mi
        {{- with include "dovetail.recordsVolume" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "dovetail.redisCaVolume" .root }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end }}

{{/* Not empty: this service writes the decision records, or can read them. An emptyDir is the scheduler's alone. */}}
{{- define "dovetail.seesRecords" -}}
{{- $service := .module | default .name }}
{{- $shared := or .root.Values.records.existingClaim (hasPrefix "s3://" .root.Values.records.store) }}
{{- if and .root.Values.records.store (or (eq $service "scheduler") (and (eq $service "console") $shared)) -}}
true
{{- end }}
{{- end }}

{{/* The directory of decision records: the scheduler writes it, the console reads it. */}}
{{- define "dovetail.recordsMount" -}}
{{- if and (include "dovetail.seesRecords" .) (hasPrefix "/" .root.Values.records.store) -}}
- name: records
  mountPath: {{ .root.Values.records.store }}
  {{- if eq .name "console" }}
  readOnly: true
  {{- end }}
{{- end }}
{{- end }}

{{- define "dovetail.recordsVolume" -}}
{{- if and (include "dovetail.seesRecords" .) (hasPrefix "/" .root.Values.records.store) -}}
- name: records
  {{- with .root.Values.records.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ . }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .root.Values.records.sizeLimit }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "dovetail.redisCaMount" -}}
{{- if .Values.redis.tls.enabled -}}
- name: redis-ca
  mountPath: /etc/dovetail/redis-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "dovetail.redisCaVolume" -}}
{{- if .Values.redis.tls.enabled -}}
- name: redis-ca
  secret:
    secretName: {{ .Values.redis.tls.secretName }}
    items:
      - key: ca.crt
        path: ca.crt
{{- end }}
{{- end }}

{{/* The pod of Redis does not restart when settings of the services change. */}}
{{- define "dovetail.redisPodMetadata" -}}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "dovetail.selector" . | nindent 2 }}
{{- end }}
