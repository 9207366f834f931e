// Measures the verifier of google/longfellow-zk, for BenchmarkVerify_Google. It reads lines of hexadecimal text from
// the standard input: the file of the circuits, its name, x and y of the issuer's key, the session transcript, the
// document type, the identifier and the value of the element, the time, and the proof. Each further line is a number
// of verifications. It writes a line for each verification: its processor time and wall time, both times for a proof
// that lacks the last byte, and the most memory of the process in kilobytes. Times are in nanoseconds. Such a proof
// is rejected after the circuits were read, so the difference is the time without that. CONTRIBUTING.md explains how
// to build it.
#include <sys/resource.h>
#include <time.h>

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

static long long nanoseconds(clockid_t clock) {
  timespec t;
  if (clock_gettime(clock, &t) != 0) exit(2);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main() {
  std::ifstream file(line(), std::ios::binary);
  std::string circuits((std::istreambuf_iterator<char>(file)), {});
  std::string name = line(), x = line(), y = line(), transcript = line(), type = line();
  RequestedAttribute a = {};
  a.id_len = put(a.id, sizeof a.id, line());
  a.cbor_value_len = put(a.cbor_value, sizeof a.cbor_value, line());
  std::string now = line(), proof = line();
  const ZkSpecStruct* spec = find_zk_spec("longfellow-libzk-v1", name.c_str());
  if (spec == nullptr) return 2;
  auto verify = [&](size_t size) {
    return run_mdoc_verifier(raw(circuits), circuits.size(), x.c_str(), y.c_str(), raw(transcript),
                             transcript.size(), &a, 1, now.c_str(), raw(proof), size, type.c_str(), spec);
  };
  std::string times;
  while (std::getline(std::cin, times)) {
    for (int i = std::stoi(times); i > 0; i--) {
      for (size_t missing : {0, 1}) {
        long long cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), wall = nanoseconds(CLOCK_MONOTONIC);
        MdocVerifierErrorCode code = verify(proof.size() - missing);
        if (code != (missing ? MDOC_VERIFIER_SIGNATURE_PARSING_FAILURE : MDOC_VERIFIER_SUCCESS)) {
          fprintf(stderr, "error %d of the verifier\n", code);
          return 1;
        }
        printf("%lld %lld ", nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, nanoseconds(CLOCK_MONOTONIC) - wall);
      }
      rusage u;
      if (getrusage(RUSAGE_SELF, &u) != 0) return 2;
      printf("%ld\n", u.ru_maxrss);
      fflush(stdout);
    }
  }
}
