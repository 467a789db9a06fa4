import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

@Suite struct EngineModelTests {
    /// COVE_MODEL_SEED, COVE_MODEL_STEPS, and COVE_MODEL_PARTS as "8", or as "3..<4" to repeat one.
    private static var parts: Range<Int> {
        let numbers = (ProcessInfo.processInfo.environment["COVE_MODEL_PARTS"] ?? "8").split(separator: "..<")
        let bounds = numbers.compactMap { Int($0) }
        return bounds.count == 2 ? bounds[0]..<bounds[1] : 0..<(bounds.first ?? 8)
    }

    @Test(arguments: parts)
    func `random use agrees with the model`(_ part: Int) async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? 1250
        print("model test part \(part): seed \(seed &+ UInt64(part)), \(steps) steps")
        try await blocking {
            // Most walks send at once, so that sending and changing overlap; in some of them changes rest first.
            let answers = ProviderAnswers(part: part)
            let account = try EngineAccount(wrap: answers.wrap(seed: seed &+ UInt64(part))) {
                $0.settleTime = part % 4 == 0 ? .seconds(2) : .zero
            }
            let model = ModelTest(account, seed: seed &+ UInt64(part))
            do { try await model.run(steps: steps) } catch {
                throw CommandFailure("\(error)\n\(account.logEnd)")
            }
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }
}
