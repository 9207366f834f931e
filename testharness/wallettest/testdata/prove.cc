// Proves an age by google/longfellow-zk, for tests. It reads lines of hexadecimal text from the standard input:
// the file of the circuits, its name, the DeviceResponse, x and y of the issuer's key, the session transcript,
// the namespace, the identifier and the value of the element, and the time. It writes the proof. CONTRIBUTING.md
// explains how to build it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "circuits/mdoc/mdoc_zk.h"

static std::string line() {
  std::string hex, bytes;
  if (!std::getline(std::cin, hex) || hex.size() % 2) exit(2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

static const uint8_t* raw(const std::string& s) { return reinterpret_cast<const uint8_t*>(s.data()); }

static size_t put(uint8_t* to, size_t room, const std::string& from) {
  if (from.size() > room) exit(2);
  memcpy(to, from.data(), from.size());
  return from.size();
}

int main() {
  std::ifstream file(line(), std::ios::binary);
  std::string compressed((std::istreambuf_iterator<char>(file)), {});
  std::string name = line(), document = line(), x = line(), y = line(), transcript = line();
  RequestedAttribute a = {};
  a.namespace_len = put(a.namespace_id, sizeof a.namespace_id, line());
  a.id_len = put(a.id, sizeof a.id, line());
  a.cbor_value_len = put(a.cbor_value, sizeof a.cbor_value, line());
  std::string now = line();
  const ZkSpecStruct* spec = find_zk_spec("longfellow-libzk-v1", name.c_str());
  if (spec == nullptr) return 2;
  uint8_t* proof = nullptr;
  size_t size = 0;
  int code = run_mdoc_prover(raw(compressed), compressed.size(), raw(document), document.size(), x.c_str(),
                             y.c_str(), raw(transcript), transcript.size(), &a, 1, now.c_str(), &proof, &size,
                             spec);
  if (code != 0) {
    fprintf(stderr, "error %d of the prover\n", code);
    return 1;
  }
  return fwrite(proof, 1, size, stdout) == size ? 0 : 1;
}
