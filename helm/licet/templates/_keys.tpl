{{/* Every object that holds keys, as JSON. */}}
{{- define "licet.keyObjects" -}}
{{- $labels := dict "app.kubernetes.io/part-of" "licet" "app.kubernetes.io/instance" .Release.Name -}}
{{- $objects := list
  (dict "kind" "configmaps" "name" .Values.trust.configMap "files" (list "root.pub" "keyset.signed") "labels" $labels)
  (dict "kind" "secrets" "name" (printf "%s-root-key" (include "licet.fullname" .)) "files" (list "root.key") "labels" $labels)
  (dict "kind" "secrets" "name" .Values.decider.keysSecret "files" (concat (list "decider.key" "beacon.key" "checkpoint-decider.key" "master.key") (ternary (list "task.key") list (gt (len .Values.decider.registrars) 0))) "labels" $labels)
  (dict "kind" "secrets" "name" .Values.reconciler.keysSecret "files" (list "checkpoint-reconciler.key") "labels" $labels)
  (dict "kind" "secrets" "name" .Values.jobs.bundle.keysSecret "files" (list "bundle.key" "catalog.key") "rest" true "labels" $labels) -}}
{{- range $tool, $_ := .Values.tools -}}
{{- $objects = append $objects (dict "kind" "secrets" "name" (printf "licet-%s-sidecar-keys" $tool) "files" (list (printf "spend-%s.key" $tool) (printf "checkpoint-sidecar-%s.key" $tool)) "labels" $labels) -}}
{{- $objects = append $objects (dict "kind" "secrets" "name" (printf "licet-%s-tool-key" $tool) "files" (list (printf "tool-%s.key" $tool)) "labels" $labels) -}}
{{- end -}}
{{- range $agent, $on := .Values.jobs.keys.agents }}{{ if $on -}}
{{- $objects = append $objects (dict "kind" "secrets" "name" (printf "licet-agent-%s-key" $agent) "files" (list (printf "delegator-%s.key" $agent)) "labels" $labels) -}}
{{- end }}{{ end -}}
{{ $objects | toJson }}
{{- end -}}
