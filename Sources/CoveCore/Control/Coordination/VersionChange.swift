/// What happened to a version.
package enum VersionChange: Sendable {
    case gained
    case lost
    case resolved

    package var ofItem: CoordinationInterface.MessageKind {
        switch self {
        case .gained: .didGainVersion
        case .lost: .didLoseVersion
        case .resolved: .didResolveVersion
        }
    }

    package var ofSubitem: CoordinationInterface.MessageKind {
        switch self {
        case .gained: .subitemDidGainVersion
        case .lost: .subitemDidLoseVersion
        case .resolved: .subitemDidResolveVersion
        }
    }
}
