// Made by go generate of the core's tables of routes. Do not edit.

export const alivePath = "/healthz";
export const readyPath = "/readyz";
export const canaryPath = "/api/v1/openapi.yaml";
export const adminRoot = "/admin/";

export const publicRoutes = [
  { methods: ["POST"], pattern: "/api/v1/verify/start", label: "start", maxBody: 16384 },
  { methods: ["OPTIONS"], pattern: "/api/v1/verify/start", label: "start", maxBody: 16384 },
  { methods: ["POST"], pattern: "/api/v1/verify/validate", label: "validate", maxBody: 16384 },
  { methods: ["GET"], pattern: "/api/v1/verify/sessions/{session}", label: "sessions", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/verify", label: "verify", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify", label: "verify", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify/file", label: "file", maxBody: 1064960 },
  { methods: ["GET"], pattern: "/verify/return/{method}", label: "return", maxBody: 16384 },
  { methods: ["POST"], pattern: "/verify/box/{}", label: "box", maxBody: 65536 },
  { methods: ["GET","HEAD"], pattern: "/verify/assets/{}", label: "verify", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/favicon.ico", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/api/v1/openapi.yaml", label: "other", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs", label: "docs", maxBody: 16384 },
  { methods: ["GET","HEAD"], pattern: "/docs/docs.css", label: "docs", maxBody: 16384 },
  { methods: [], pattern: "/api/v1/verify/sessions/{session...}", label: "sessions", maxBody: 16384 },
  { methods: [], pattern: "/verify/{...}", label: "verify", maxBody: 16384 },
  { methods: [], pattern: "/docs/{...}", label: "docs", maxBody: 16384 },
  { methods: [], pattern: "{...}", label: "other", maxBody: 16384 },
];

export const adminRoutes = [
  { methods: ["GET","HEAD"], pattern: "/", label: "admin", maxBody: 16384 },
  { methods: ["GET"], pattern: "/admin/v1/integrations", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/integrations/{id}/test", label: "admin", maxBody: 16384 },
  { methods: ["GET"], pattern: "/admin/v1/keys", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/keys", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/keys/{id}/revoke", label: "admin", maxBody: 16384 },
  { methods: ["GET"], pattern: "/admin/v1/deliveries", label: "admin", maxBody: 16384 },
  { methods: ["POST"], pattern: "/admin/v1/deliveries/{id}/resend", label: "admin", maxBody: 16384 },
  { methods: [], pattern: "{...}", label: "admin", maxBody: 16384 },
];
