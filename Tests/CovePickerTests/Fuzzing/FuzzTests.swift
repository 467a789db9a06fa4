import CoveTestSupport
import Testing

@testable import CovePicker

/// What browsers, and who claims to be one, send.
@Suite(.timeLimit(.minutes(FuzzTarget.minutes))) struct FuzzTests {
    @Test func `requests: what comes in pieces is understood as the whole, and within its limits`() async throws {
        try await FuzzTarget("requests", inputs: 2000) { input in
            let whole = try? HTTPRequest.parse(input)
            // However little of it has come, it is either not whole yet or wrong already.
            for length in stride(from: 0, to: input.count, by: max(1, input.count / 40)) {
                switch Result(catching: { () throws(HTTPRequest.Problem) in
                    try HTTPRequest.parse(Array(input.prefix(length)))
                }) {
                case .success(let part):
                    try FuzzProblem.unless(part == nil || (whole ?? nil) == nil, "\(length) bytes are a whole")
                case .failure(let problem):
                    try FuzzProblem.unless((whole ?? nil) == nil, "\(length) bytes are refused: \(problem)")
                    try FuzzProblem.unless((400...505).contains(problem.status), "\(problem)")
                }
            }
            guard let request = whole ?? nil else { return .refused }
            try FuzzProblem.unless(request.path.hasPrefix("/") && request.fields["host"] != nil, "\(request)")
            try FuzzProblem.unless(request.body.count <= HTTPRequest.longestBody, "\(request.body.count)")
            try FuzzProblem.unless(request.method == .post || request.body.isEmpty, "a body of GET")
            try FuzzProblem.unless(request.fields["transfer-encoding"] == nil, "it may end elsewhere")
            let texts = Array(request.fields.values) + Array(request.fields.keys) + [request.path]
            let hasControls = texts.contains { $0.utf8.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F } }
            try FuzzProblem.unless(!hasControls, "\(request)")
            let guardian = WebGuard(port: 1)
            try FuzzProblem.unless(guardian.refusal(request)?.status == 403, "a stranger is let in: \(request)")
            return .understood
        }.run()
    }
}
