import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

@Suite struct EngineModelTests {
    @Test(arguments: 0..<(Int(ProcessInfo.processInfo.environment["COVE_MODEL_PARTS"] ?? "") ?? 8))
    func `random use agrees with the model`(_ part: Int) async throws {
        let environment = ProcessInfo.processInfo.environment
        let seed = environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
        let steps = environment["COVE_MODEL_STEPS"].flatMap(Int.init) ?? 1250
        print("model test part \(part): seed \(seed &+ UInt64(part)), \(steps) steps")
        try await blocking {
            // Half of the walks send at once, so that sending and changing overlap; in half of them changes rest first.
            let account = try EngineAccount { $0.settleTime = part % 2 == 0 ? .zero : .seconds(2) }
            let model = ModelTest(account, seed: seed &+ UInt64(part))
            try await model.run(steps: steps)
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }
}
