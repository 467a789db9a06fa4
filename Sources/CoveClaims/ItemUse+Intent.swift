package import CoveCore

/// Intents as they travel.
extension ItemUse {
    /// Reads an intent; throws `EINVAL` for options that don't go together.
    package init(_ intent: CoordinationInterface.Intent) throws(ClaimFailure) {
        switch intent.kind {
        case .reading:
            var options: ReadingOptions = []
            for name in intent.options {
                switch CoordinationInterface.ReadingOption(rawValue: name) {
                case .withoutChanges: options.insert(.withoutChanges)
                case .resolvesSymbolicLink: options.insert(.resolvesSymbolicLink)
                case .immediatelyAvailableMetadataOnly: options.insert(.metadataOnly)
                case .forUploading: options.insert(.forUploading)
                case nil: throw ClaimFailure(.invalidArgument, "\(name) is no option of a reading")
                }
            }
            self = .read(options)
        case .writing:
            guard intent.options.count <= 1 else {
                throw ClaimFailure(.invalidArgument, "a writing takes one option at most")
            }
            let option = intent.options.first.map { CoordinationInterface.WritingOption(rawValue: $0) }
            if option == .some(nil) { throw ClaimFailure(.invalidArgument, "\(intent.options[0]) is no option") }
            self = .write(option ?? nil)
        }
    }

    package var resolvesSymbolicLink: Bool {
        if case .read(let options) = self { return options.contains(.resolvesSymbolicLink) }
        return false
    }

    /// What it does to the other names of its item: their contents change, and no snapshot is made of them.
    package var ofOtherName: ItemUse {
        if case .read(let options) = self { return .read(options.subtracting(.forUploading)) }
        return self
    }

    package var isForUploading: Bool {
        if case .read(let options) = self { return options.contains(.forUploading) }
        return false
    }

    /// True where the bytes are to be here.
    package var needsContents: Bool {
        if case .read(let options) = self { return !options.contains(.metadataOnly) }
        return false
    }
}

extension CoordinationInterface.Intent {
    package init(_ intent: ClaimIntent) {
        let path = PathParameter(intent.node.path)
        switch intent.use {
        case .write(let option): self.init(writing: path, option)
        case .read(let options):
            var names: [CoordinationInterface.ReadingOption] = []
            if options.contains(.withoutChanges) { names.append(.withoutChanges) }
            if options.contains(.resolvesSymbolicLink) { names.append(.resolvesSymbolicLink) }
            if options.contains(.metadataOnly) { names.append(.immediatelyAvailableMetadataOnly) }
            if options.contains(.forUploading) { names.append(.forUploading) }
            self.init(reading: path, names)
        }
    }
}
